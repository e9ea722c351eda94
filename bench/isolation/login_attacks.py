"""Attacks before the login: someone tries passwords."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from bench import handshake
from bench.amqp_frames import parse_frames
from bench.errors import BenchError
from bench.isolation.attack import Attack, Stage

_READ_BYTES: Final = 65_536


def _wrong_passwords(stage: Stage, logins: int, sockets: int) -> Iterator[None]:
    """Each socket logs in once, with a password of its own, and waits until it is refused."""
    yield
    waiting: list[socket.socket] = []
    for number in range(logins):
        url = replace(stage.url, password=f"wrong {number}")
        peer = socket.create_connection((url.host, url.port), stage.seconds_max)
        peer.sendall(handshake.PROTOCOL_HEADER + handshake.start_ok(url))
        waiting.append(peer)
        if len(waiting) == sockets:
            _await_refusal(waiting.pop(0))
    for peer in waiting:
        _await_refusal(peer)


def _await_refusal(peer: socket.socket) -> None:
    """Read to the end of a connection that must not open.

    Raises:
        BenchError: The broker accepted the login.
    """
    octets = bytearray()
    # RabbitMQ may end a refused connection with a reset.
    with peer, suppress(ConnectionResetError):
        while part := peer.recv(_READ_BYTES):
            octets += part
    methods = {frame.method_id for frame in parse_frames(bytes(octets))}
    if handshake.TUNE in methods:
        raise BenchError("the broker has accepted a wrong password")


LOGIN_ATTACKS: Final = (
    Attack(
        "wrong-passwords",
        "many logins with wrong passwords, a hundred at a time",
        _wrong_passwords,
        {"logins": 2_000, "sockets": 100},
        {"logins": 200, "sockets": 100},
        is_timed=False,
    ),
)
