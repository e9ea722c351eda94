"""Small directories of embedded logs, and consumers of them, for tests."""

from dataclasses import replace

from offsets import Consumer, LogRoot
from tests.embedded.logs import BY_HAND

SMALL_SEGMENTS = replace(BY_HAND, segment_bytes=600)


def fill(root: LogRoot, name: str, count: int) -> None:
    log = root.log(name)
    for number in range(log.end_offset, log.end_offset + count):
        log.append(b"%d" % number)
        log.flush()
    log.sync()


def consumer(root: LogRoot, group: str = "g", pattern: str = "*", **options: object) -> Consumer:
    """Return a consumer that writes down what it is told to, and looks again each time."""
    by_hand = {"sync_interval_seconds": 0.0, "discovery_interval_seconds": 0.0, **options}
    return Consumer(root.path, group, pattern, **by_hand)  # type: ignore[arg-type]


def drain(reader: Consumer, max_records: int = 7) -> dict[str, list[int]]:
    """Poll until there is nothing; return the offsets by log."""
    found: dict[str, list[int]] = {}
    while (batch := reader.poll(max_records)) is not None:
        assert batch.payloads == [b"%d" % offset for offset in batch.offsets]
        found.setdefault(batch.log, []).extend(batch.offsets)
    return found
