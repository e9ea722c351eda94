"""Bodies of the native Python clients; the other clients do the same in their languages."""

from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

END = b"end"


def read_bodies(directory: Path) -> Callable[[int], bytes]:
    """Return a function that makes the body of a number."""
    sizes = [int(line) for line in (directory / "sizes.txt").read_text().split()]
    tails = (directory / "tails.bin").read_bytes()

    def body(number: int) -> bytes:
        tail = tails[: sizes[number % len(sizes)] - 40]
        head = b"%016x%016x" % (number, 0)
        return head + b"%08x" % crc32(head, crc32(tail)) + tail

    return body


def headers(number: int) -> dict[str, str | int]:
    """Return the headers of a message."""
    return {
        "traceparent": f"00-{number:032x}-{number:016x}-01",
        "tenant": f"tenant-{number % 5000}",
        "attempt": 1,
    }


class Verifier:
    """Verifies bodies, each of which has to be the next one.

    Attributes:
        received: Messages so far.
        corrupt: Messages with a wrong digest.
        disordered: Messages that are not the next one.
    """

    def __init__(self) -> None:
        self.received = 0
        self.corrupt = 0
        self.disordered = 0

    def take(self, body: bytes) -> None:
        """Count a message."""
        if int(body[32:40], 16) != crc32(body[:32], crc32(body[40:])):
            self.corrupt += 1
        elif int(body[:16], 16) != self.received:
            self.disordered += 1
        self.received += 1

    def to_json(self) -> dict[str, int]:
        """Return the counts."""
        return {
            "received": self.received,
            "corrupt": self.corrupt,
            "disordered": self.disordered,
        }


def percentiles(latencies_ns: list[int]) -> Iterator[tuple[str, float]]:
    """Return p50 and p99 in microseconds, by nearest rank."""
    ordered = sorted(latencies_ns)
    for name, percent in (("p50_us", 50), ("p99_us", 99)):
        yield name, ordered[-(-len(ordered) * percent // 100) - 1] / 1e3
