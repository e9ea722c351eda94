"""The kernel that counts the bodies of messages by their size.

The file is ordinary Python. `_body_sizes_c.pxd` gives its names C types, and the build compiles it
as `_body_sizes_c`; `body_sizes.py` chooses.
"""

from __future__ import annotations

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has it from the .pxd
    from amqp_server.protocol._headers_py import body_position


def count_bodies(messages: list[bytes], counts: list[int]) -> int:
    """Count the bodies of messages by their size; return the sum of the sizes.

    Args:
        messages: Messages as stored in ring and log (docs/log-format.md).
        counts: Nine counters, of which each body increments one: for bodies of up to 100, 1,000,
            10,000, 100,000, 10^6, 10^7, 5 * 10^7 and 10^8 octets, and for larger ones.

    Raises:
        ValueError: The lengths in a message are inconsistent.
    """
    total = 0
    last = 0
    run = 0
    for message in messages:
        size = len(message)
        size -= body_position(message, 0, size)
        total += size
        if size <= 10_000:
            place = 0 if size <= 100 else 1 if size <= 1_000 else 2
        elif size <= 10_000_000:
            place = 3 if size <= 100_000 else 4 if size <= 1_000_000 else 5
        else:
            place = 6 if size <= 50_000_000 else 7 if size <= 100_000_000 else 8
        if place != last:
            if run:
                counts[last] += run
            last = place
            run = 0
        run += 1
    if run:
        counts[last] += run
    return total
