"""`exports.list`: what exports have noted, how far behind they are, and who reads logs now."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.base import time_slice
from amqp_server.control import exports as exports_command
from amqp_server.control.client import ask
from appendlog.export_records import begin_record, end_record
from appendlog.reclaim.leases import HeldLease
from tests.amqp_client import connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer


def exports(server: RunningServer) -> dict[str, Any]:
    return dict(ask(server.storage_path, "exports.list"))


def incarnation(server: RunningServer, queue: str) -> str:
    found = ask(server.storage_path, "queues.stats", vhost="/", queue=queue, after="", limit=1)
    return str(found["queues"][0]["incarnation"])


def test_an_output_is_behind_by_what_came_since(server: RunningServer) -> None:
    assert exports(server) == {"exports": [], "readers": []}
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(5):
            client.publish(b"x", "q", properties=Basic.Properties(delivery_mode=2))
            client.expect(Basic.Ack)
        identity = incarnation(server, "q")
        record = begin_record(server.storage_path, "lake", {"vhost": "/"}, 1)
        row = {"vhost": "/", "queue": "q", "incarnation": identity, "status": "exported"}
        gone = {**row, "queue": "gone", "vhost": "gone", "end": 7}
        noted = [{**row, "end": 2, "rows": 2}, gone]
        end_record(server.storage_path, record, noted, 0, 9)
        (found,) = exports(server)["exports"]
        assert (found["out"], found["started_ns"], found["ended_ns"]) == ("lake", 1, 9)
        first, second = found["queues"]
        assert (first["behind"], first["log_end_offset"], first["is_same"]) == (3, 5, True)
        assert (second["behind"], second["exists"]) == (None, False)
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        client.declare("q")
        (found,) = exports(server)["exports"]
        again = found["queues"][0]
        assert (again["exists"], again["is_same"], again["behind"]) == (True, False, None)
        with HeldLease.take(server.storage_path, "/", "q", UUID(incarnation(server, "q")), 3):
            (reader,) = exports(server)["readers"]
            assert (reader["queue"], reader["low_offset"]) == ("q", 3)
        assert exports(server)["readers"] == []


def test_others_have_their_turn_between_the_queues_of_one_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"vhost": "/", "incarnation": "", "status": "exported"}
    noted = [{**row, "queue": str(number)} for number in range(20)]
    turn = 0
    turns: list[int] = []
    find_row = exports_command._row

    def note_and_find(*arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - of `_row`
        turns.append(turn)
        return find_row(*arguments)

    monkeypatch.setattr(exports_command, "_row", note_and_find)
    # Each step is a slice of its own.
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    with ThreadedServer(tmp_path) as server:
        end_record(tmp_path, begin_record(tmp_path, "lake", {"vhost": "/"}, 1), noted, 0, 9)

        def tick() -> None:
            nonlocal turn
            turn += 1
            server._loop.call_soon(tick)

        server._loop.call_soon_threadsafe(tick)
        (found,) = ask(tmp_path, "exports.list")["exports"]
    assert len(found["queues"]) == len(noted)
    assert len(set(turns)) == len(noted)
