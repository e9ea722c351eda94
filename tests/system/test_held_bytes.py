"""The thread that watches the memory asks connections while the event loop changes them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from amqp_server.connections.client_connection import ClientConnection
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer


def ask_while_it_is_lost(connection: ClientConnection, opcode_at: int) -> bool:
    """Ask for the unsent bytes; the connection is lost before one opcode of the answer.

    Returns:
        Whether there is such an opcode.
    """
    outbox = connection._outbox
    left = opcode_at

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - as in typeshed
        nonlocal left
        if frame.f_code.co_name != "unsent_bytes":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                connection._outbox = None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert connection.held_bytes == 0
    finally:
        sys.settrace(before)
        connection._outbox = outbox
    return left <= 0


def test_a_connection_may_be_lost_while_its_bytes_are_counted(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        (connection,) = server.connections
        opcode_at = 1
        while ask_while_it_is_lost(connection, opcode_at):
            opcode_at += 1
    assert opcode_at > 5
