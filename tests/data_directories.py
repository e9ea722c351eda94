"""Data directories as a stopped or killed server leaves them, and damage to them."""

from __future__ import annotations

import os
from pathlib import Path

from pamqp.commands import Basic

from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer


def fill(storage: Path, **counts: int) -> None:
    """Start a server, publish `m0`, `m1`, ... to durable queues, one chunk each; stop cleanly."""
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue, count in counts.items():
            client.declare(queue)
            for number in range(count):
                client.publish(b"m%d" % number, queue)
                client.expect_confirmed()


def take(storage: Path, queue: str) -> list[bytes]:
    """Start a server, take all messages of a queue and acknowledge them; stop cleanly."""
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel()
        bodies: list[bytes] = []
        while (message := client.get(queue, no_ack=False)) is not None:
            bodies.append(message.body)
            client.send(Basic.Ack(delivery_tag=message.tag))
        client.ready_count(queue)
        return bodies


def log_of(storage: Path, queue: str) -> Path:
    """Return the log directory of a queue."""
    (directory,) = (storage / "logs" / "%2f" / queue).iterdir()
    return directory


def segments_of(storage: Path, queue: str) -> list[Path]:
    """Return the segments of a queue, oldest first."""
    return sorted(log_of(storage, queue).glob("*.log"))


def tear(segment: Path) -> None:
    """Put the beginning of a chunk behind the end of a segment, as a crash does."""
    with segment.open("ab") as file:
        file.write(b"AQLC" + bytes(40))


def damage(segment: Path, position: int) -> None:
    """Flip the bits of one octet."""
    with segment.open("r+b") as file:
        file.seek(position)
        octet = file.read(1)
        file.seek(position)
        file.write(bytes((octet[0] ^ 0xFF,)))


def chunk_positions(segment: Path) -> list[int]:
    """Return where the chunks begin."""
    content = segment.read_bytes()
    positions = []
    at = content.find(b"AQLC")
    while at >= 0:
        positions.append(at)
        at = content.find(b"AQLC", at + 1)
    return positions


def snapshot(storage: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time of change and content of all that is in a directory."""
    return {
        str(path.relative_to(storage)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [storage, *sorted(storage.rglob("*"))]
        if not os.path.ismount(path)
    }
