"""Messages are moved by the broker: none is lost, the move is listed, and it can be stopped."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.audit.reading import AuditReader
from amqp_server.broker.transfers.handing_over import CopyAt, HandedOver, hand_over
from amqp_server.control import moving
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from amqp_server.control.transfers import ENDED_MAX
from appendlog.layout.message import encode_message
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        connected.declare("from")
        connected.declare("to")
        yield connected


def publish(client: AmqpClient, queue: str, *bodies: bytes, **properties: Any) -> None:  # noqa: ANN401
    for body in bodies:
        properties_of_one = Basic.Properties(delivery_mode=2, **properties)
        client.publish(body, queue, properties=properties_of_one)
        client.expect(Basic.Ack)


def move(server: RunningServer, **options: object) -> dict[str, Any]:
    wanted = {"vhost": "/", "queue": "from", "to": "to"}
    return dict(ask(server.storage_path, "queues.move", **{**wanted, **options}))


def listed(server: RunningServer, **options: object) -> list[dict[str, Any]]:
    return list(ask(server.storage_path, "transfers.list", **options)["transfers"])


def until_ended(server: RunningServer, number: int) -> dict[str, Any]:
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        row = next(each for each in listed(server) if each["id"] == number)
        if row["state"] not in {"waiting", "running"}:
            return row
    raise AssertionError("the transfer does not end")


def taken(client: AmqpClient, queue: str) -> list[bytes]:
    found = []
    while (message := client.get(queue)) is not None:
        found.append(message.body)
    return found


def test_all_ready_messages_go_in_order_and_are_marked(
    server: RunningServer, client: AmqpClient
) -> None:
    publish(client, "from", b"0", b"1", headers={"kind": "x"}, correlation_id="c")
    publish(client, "from", b"2")
    done = move(server)
    assert (done["moved"], done["next"], done["is_dry_run"]) == (3, 3, False)
    assert client.ready_count("from") == 0
    first = client.get("to")
    assert first is not None
    headers: Any = first.properties.headers
    assert (headers["kind"], first.properties.correlation_id) == ("x", "c")
    assert (headers["x-moved-from"], headers["x-moved-offset"]) == ("from", 0)
    assert [first.body, *taken(client, "to")] == [b"0", b"1", b"2"]


def test_a_limit_a_place_and_a_filter_choose(server: RunningServer, client: AmqpClient) -> None:
    publish(client, "from", b"0", b"1", b"2", b"3", headers={"customer": 7})
    publish(client, "from", b"4", headers={"customer": 8})
    assert move(server, dry_run=True)["moved"] == 5
    assert client.ready_count("from") == 5
    assert move(server, start="1", limit=1)["moved"] == 1
    assert move(server, filters=["customer=8"])["moved"] == 1
    assert move(server, until="1")["moved"] == 1
    assert taken(client, "to") == [b"1", b"4", b"0"]
    assert taken(client, "from") == [b"2", b"3"]


def test_what_consumers_hold_stays_with_them(server: RunningServer, client: AmqpClient) -> None:
    publish(client, "from", b"0", b"1")
    held = client.get("from", no_ack=False)
    assert held is not None
    assert move(server)["moved"] == 1
    client.send(Basic.Nack(held.tag, requeue=True))
    assert taken(client, "from") == [b"0"]
    assert taken(client, "to") == [b"1"]


def test_a_full_queue_ends_it_and_the_rest_stays_in_order(
    server: RunningServer, client: AmqpClient
) -> None:
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    client.declare("small", arguments=full)
    publish(client, "from", b"0", b"1", b"2", b"3")
    with pytest.raises(ControlError, match=r"2 messages were moved.*where they were") as refused:
        move(server, to="small")
    assert "full" in refused.value.reason
    assert taken(client, "small") == [b"0", b"1"]
    assert taken(client, "from") == [b"2", b"3"]
    failed = listed(server)[0]
    assert (failed["state"], failed["progress"]["moved"]) == ("failed", 2)
    assert "full" in failed["reason"]


def test_what_is_removed_as_too_old_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("from")
        client.declare("small", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        publish(client, "from", b"0", b"1", b"2", b"3", b"4")
        queues = server.server.broker.vhosts["/"].queues
        source = queues["from"]
        copies = [CopyAt(at, encode_message(0, b"", b"", bytes(2), b"%d" % at)) for at in range(4)]

        async def hand_over_while_old_segments_go() -> HandedOver:
            handing = asyncio.create_task(hand_over(source, queues["small"], copies))
            # Its first step takes them.
            await asyncio.sleep(0)
            assert source.ready_count == 1
            # Offsets 0 to 2, as for a segment that is above `x-force-remove-after`.
            source.forced_removal.drop_below(source, 3)
            return await handing

        done = server.run(hand_over_while_old_segments_go)
        assert (len(done.copies), done.refused) == (2, 2)
        assert taken(client, "from") == [b"3", b"4"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"to": "from"}, "name another one"),
        ({"to": "none"}, "no queue 'none'"),
        ({"vhost": "none"}, "vhost 'none'"),
        ({"limit": -1}, "limit is -1"),
        ({"start": "nowhere"}, "start"),
        ({"start": "nowhere", "background": True}, "start"),
    ],
)
def test_wrong_moves_are_refused_at_once(
    server: RunningServer, client: AmqpClient, options: dict[str, Any], reason: str
) -> None:
    assert client.ready_count("from") == 0
    with pytest.raises(ControlError, match=reason):
        move(server, **options)
    assert listed(server) == []


def test_a_stream_is_not_moved(server: RunningServer, client: AmqpClient) -> None:
    client.declare("stream", arguments={"x-queue-type": "stream"})
    with pytest.raises(ControlError, match="is a stream"):
        move(server, queue="stream")
    publish(client, "from", b"0")
    assert move(server, to="stream")["moved"] == 1


def test_one_in_the_background_goes_on_without_its_client(
    server: RunningServer, client: AmqpClient
) -> None:
    publish(client, "from", *(b"%d" % number for number in range(50)))
    begun = move(server, background=True)
    ended = until_ended(server, begun["transfer"])
    assert (ended["state"], ended["progress"]["moved"], ended["kind"]) == ("done", 50, "move")
    assert (ended["queue"], ended["to"]) == ("from", "to")
    assert ended["ended_ms"] >= ended["started_ms"] > 0
    assert client.ready_count("to") == 50
    assert listed(server, queue="other") == []
    assert server.terminate() == 0
    events = [row["event"] for row in AuditReader(server.storage_path).new_events()]
    assert "queue.moved" in events


def test_a_stopped_one_leaves_the_rest(server: RunningServer, client: AmqpClient) -> None:
    publish(client, "from", *(b"%d" % number for number in range(20)))
    # Publishers are blocked, so it waits before its first part until it is stopped.
    ask(server.storage_path, "alarms.hold", resource="disk", is_on=True)
    begun = move(server, background=True)
    assert begun["is_waiting"] is True
    stopped = ask(server.storage_path, "transfers.stop", id=begun["transfer"])
    assert stopped["state"] == "stopped"
    with pytest.raises(ControlError, match="no transfer"):
        ask(server.storage_path, "transfers.stop", id=begun["transfer"])
    ask(server.storage_path, "alarms.hold", resource="disk", is_on=False)
    assert client.ready_count("from") == 20
    assert client.ready_count("to") == 0


@pytest.mark.parametrize("background", [False, True])
def test_one_that_fails_for_a_reason_that_nobody_foresaw_is_listed_as_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    background: bool,
) -> None:
    async def fail(_source: object) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(moving, "show_all", fail)
    options: dict[str, Any] = {"queue": "from", "to": "to", "background": background}
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("from")
        client.declare("to")
        publish(client, "from", b"0")
        with pytest.raises(ControlError, match="internal error, see the server's log"):
            ask(tmp_path, "queues.move", vhost="/", **options)
        (row,) = ask(tmp_path, "transfers.list")["transfers"]
        assert taken(client, "from") == [b"0"]

    assert row["state"] == "failed"
    assert row["reason"] == "internal error, see the server's log"
    assert "ZeroDivisionError: unforeseen" in caplog.text


def test_many_wait_for_their_turn_and_the_server_stops_with_them(
    server: RunningServer, client: AmqpClient
) -> None:
    publish(client, "from", b"0")
    ask(server.storage_path, "alarms.hold", resource="disk", is_on=True)
    numbers = [move(server, background=True)["transfer"] for _ in range(6)]
    states = Counter(row["state"] for row in listed(server))
    assert states == {"running": 4, "waiting": 2}
    waiting = ask(server.storage_path, "transfers.stop", id=numbers[-1])
    assert waiting["state"] == "stopped"
    assert server.terminate() == 0


def test_a_killed_server_loses_nothing(start_server: StartServer) -> None:
    server = start_server()
    bodies = [b"%06d" % number for number in range(20_000)]
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("from")
        client.declare("to")
        for body in bodies:
            client.publish(body, "from", properties=Basic.Properties(delivery_mode=2))
        client.expect_confirmed()
        begun = move(server, background=True)
        # Some of it is done, and some is not.
        while listed(server)[0]["progress"].get("moved", 0) == 0:
            pass
    server.kill()
    again = start_server(storage_path=server.storage_path)
    assert begun["transfer"] == 1
    assert listed(again) == []
    with connect(again.address) as client:
        client.open_channel()
        moved, left = taken(client, "to"), taken(client, "from")
    assert set(moved) | set(left) == set(bodies)
    assert moved == sorted(moved)
    assert left == sorted(left)


def test_the_list_is_bounded(server: RunningServer, client: AmqpClient) -> None:
    for _ in range(ENDED_MAX + 5):
        move(server)
    rows = listed(server)
    assert len(rows) == ENDED_MAX
    assert rows[0]["id"] == ENDED_MAX + 5
    assert client.call(Queue.Delete(queue="to"), Queue.DeleteOk).message_count == 0
