"""What the disk refuses fails, and nothing of it is left."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

KEPT = {"vhost": "/", "component": "federation-upstream", "name": "s"}
FLAGS = {"durable": True, "auto_delete": False, "arguments": {}}
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("queues", "queues.declare", {"vhost": "/", "name": "new", **FLAGS}),
    (
        "exchanges",
        "exchanges.declare",
        {"vhost": "/", "name": "new", "type": "topic", "internal": False, **FLAGS},
    ),
    (
        "bindings",
        "bindings.add",
        {"vhost": "/", "source": "amq.direct", "destination": "q", "destination_type": "queue"}
        | {"routing_key": "k", "arguments": {}},
    ),
    ("parameters", "parameters.set", {**KEPT, "value": {"value": 2}}),
    ("parameters", "parameters.clear", KEPT),
    ("global_parameters", "global_parameters.set", {"name": "g", "value": {"value": 2}}),
    ("global_parameters", "global_parameters.clear", {"name": "g"}),
    ("vhost_metadata", "vhosts.set", {"name": "/", "description": "new"}),
]


def state(server: ThreadedServer) -> object:
    broker = server.server.broker
    host = broker.vhosts["/"]
    return server.call(
        lambda: (
            sorted(host.queues),
            sorted(host.exchanges),
            host.binding_count,
            dict(host.parameters),
            dict(broker.global_parameters),
            dict(host.metadata),
        )
    )


@pytest.mark.parametrize(("kind", "command", "arguments"), CHANGES)
def test_a_change_that_the_disk_refuses_fails_and_is_undone(
    tmp_path: Path, kind: str, command: str, arguments: dict[str, Any]
) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path) as server:
        asking = Asking(storage_path)
        asking.declare("q")
        asking.ask("parameters.set", **KEPT, value={"value": 1})
        asking.ask("global_parameters.set", name="g", value={"value": 1})
        asking.ask("vhosts.set", name="/", description="old")
        before = state(server)
        # A file stands where the documents of this kind belong.
        documents, aside = storage_path / "metadata" / kind, tmp_path / "aside"
        if documents.exists():
            documents.rename(aside)
        documents.write_text("in the way")

        assert asking.refusal(command, **arguments).kind == "failed"
        if kind != "queues":
            # A queue goes with its definition, in the turn after the refusal.
            assert state(server) == before
        server.wait_until(lambda: "new" not in server.server.broker.vhosts["/"].queues)

        documents.unlink()
        if aside.exists():
            shutil.move(aside, documents)
        asking.ask(command, **arguments)
        assert state(server) != before
