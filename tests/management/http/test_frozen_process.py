"""A management server that hangs, and others that ask for everything and read nothing."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from amqp_server.control.client import ask
from tests.amqp_client import connect
from tests.control.test_unread_replies import EVERYTHING, asked, declare_many
from tests.management.conftest import ManagementServer, StartManagementServer

MANY_QUEUES: Final = 10_000
UNREAD: Final = 8
"""Clients that ask for everything at the same time."""
MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024
"""What they may take together; one answer of 10,000 queues is larger than that."""


def test_unread_answers_of_ten_thousand_queues_take_bounded_memory(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server()
    with connect(("127.0.0.1", server.amqp_port)) as client, ExitStack() as opened:
        client.open_channel(1, confirms=True)
        declare_many(client, MANY_QUEUES)
        client.publish(b"first", "last")
        client.expect_confirmed()
        assert server.get("/api/queues?page=1").json["total_count"] == MANY_QUEUES + 1
        frozen = server.process_id
        os.kill(frozen, signal.SIGSTOP)
        before = resident_bytes(server)
        for _ in range(UNREAD):
            slow = asked(server.storage_path, "management.changes", **EVERYTHING)
            opened.enter_context(slow).recv(1, socket.MSG_PEEK)

        # Others are served meanwhile, in turns with the answers.
        for number in range(200):
            client.publish(b"%d" % number, "last")
            client.expect_confirmed()
        assert ask(server.storage_path, "status")["queues"] == MANY_QUEUES + 1
        assert resident_bytes(server) - before < MEMORY_BYTES_MAX

        os.kill(frozen, signal.SIGCONT)
        assert server.get("/api/queues/%2F/last").json["messages"] == 201
        assert server.process_id == frozen


def resident_bytes(server: ManagementServer) -> int:
    """Return the memory that the broker has now."""
    pages = int(Path(f"/proc/{server.server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
