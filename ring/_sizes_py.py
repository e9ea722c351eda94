"""Sums over the messages of a batch: the only work of a ring for each single message.

The file is ordinary Python. `_sizes_c.pxd` gives its names C types, and the build compiles it as
`_sizes_c`; `sizes.py` chooses.
"""

from __future__ import annotations


def bytes_of(messages: list[bytes]) -> int:
    """Return the total number of bytes in the messages."""
    total = 0
    for message in messages:
        total += len(message)
    return total


def count_within(messages: list[bytes], bytes_max: int) -> int:
    """Return how many messages, from the first on, have at most `bytes_max` bytes together."""
    total = 0
    count = 0
    for message in messages:
        total += len(message)
        if total > bytes_max:
            break
        count += 1
    return count
