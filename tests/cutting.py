"""A server whose time slices are over after one step: each operation is cut at every place.

As a module, `python -P -m tests.cutting`, it is the command of such a server.
"""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Final

import pytest

from amqp_server.compiled_loop import loop
from tests.looked_up_names import is_compiled_in, is_read

if TYPE_CHECKING:
    from amqp_server.connections.client_connection import ClientConnection
    from tests.amqp_client import AmqpClient
    from tests.threaded_server import ThreadedServer

STEPS: Final[dict[str, float]] = {
    "amqp_server.base.time_slice.SLICE_SECONDS": 0.0,
    "amqp_server.broker.publishing.publishing.STEP_QUEUES": 1,
    "amqp_server.broker.publishing.publishing.STEP_LOOKS": 1,
    "amqp_server.broker.publishing.publish_batch.STEP_QUEUES": 1,
    "amqp_server.broker.transfers.forwarder.STEP_QUEUES": 1,
    "amqp_server.broker.transfers.large_body.LARGE_BYTES": 64,
    "amqp_server.broker.transfers.large_body.STEP_BYTES": 64,
    "amqp_server.broker.transactions.commit.STEP_QUEUES": 1,
    "amqp_server.broker.transactions.pending_commits.STEP_QUEUES": 1,
    "amqp_server.broker.transactions.transaction.STEP_RUNS": 1,
    "amqp_server.broker.channel.STEP_RUNS": 1,
    "amqp_server.broker.channel.STEP_MESSAGES": 1,
    "amqp_server.broker.consuming.requeueing.STEP_RANGES": 1,
    "amqp_server.broker.consuming.requeueing.STEP_MESSAGES": 1,
    "amqp_server.broker.channel.STEP_RANGES": 1,
    "amqp_server.broker.channel.MANY_RUNS": 1,
    "amqp_server.connections.handlers.basic.MANY_RUNS": 1,
    "amqp_server.broker.consuming.dispatch.FEW_PASSED": 0,
    "amqp_server.broker.consuming.dispatch.STEP_ASIDE": 1,
    "amqp_server.broker.queue.PURGE_STEP_OFFSETS": 1,
    "amqp_server.operations.queue_purging.PURGE_STEP_OFFSETS": 1,
}
"""How long a slice is, and how much one step does."""


def cut_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every slice as short as one step, and every step as short as it can be."""
    for name, value in STEPS.items():
        assert is_cut(name), f"a patch of {name} would do nothing"
        monkeypatch.setattr(name, value)


def is_cut(name: str) -> bool:
    """Return whether the loop does what a constant says when it is changed, in both forms."""
    module, _, constant = name.rpartition(".")
    return is_read(module, constant) and not is_compiled_in(module, constant, ())


def together(server: ThreadedServer, *sends: tuple[AmqpClient, bytes]) -> None:
    """Let the server read what some clients send, in this order, before it does anything else."""

    def read_all() -> None:
        for client, octets in sends:
            read(server, client, octets)

    server.call(read_all)


def connection_of(server: ThreadedServer, client: AmqpClient) -> ClientConnection:
    """Return the server's end of a client's connection."""
    host, port = client.socket.getsockname()
    (connection,) = (each for each in server.connections if each.name.startswith(f"{host}:{port} "))
    return connection


def read(server: ThreadedServer, client: AmqpClient, octets: bytes) -> None:
    """Let the server read what a client sends; to be called on the server's loop."""
    connection = connection_of(server, client)
    connection.get_buffer(-1)[: len(octets)] = octets
    connection.buffer_updated(len(octets))


if __name__ == "__main__":
    # As in any server process, before anything else is imported.
    loop.use()
    cut_everywhere(pytest.MonkeyPatch())
    runpy.run_module("amqp_server", run_name="__main__")
