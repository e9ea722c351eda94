"""No client keeps the event loop for long, and the log names one that does."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.base import time_slice
from amqp_server.base.garbage_collection import collector
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.sorted_runs import CHUNK_MAX, SortedRuns
from amqp_server.connections.handlers import HANDLERS
from amqp_server.connections.session.client_session import ClientSession, _text_of
from amqp_server.control.client import ask
from amqp_server.protocol.framing import Event, MethodFrame
from amqp_server.protocol.methods import QueueDeclare
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.system.watched import LIMITS, LOW_MEMORY, SetSensor, Watched
from tests.threaded_server import ThreadedServer

MANY = 100


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the clients whose events were handled, one entry for each event."""
    clients: list[str] = []
    handle = ClientSession._handle

    def noted(self: ClientSession, event: Event) -> None:
        clients.append(self.name)
        handle(self, event)

    monkeypatch.setattr(ClientSession, "_handle", noted)
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    return clients


def test_the_requests_of_one_client_are_handled_in_time_slices(
    tmp_path: Path, handled: list[str]
) -> None:
    ask_passive = frame.marshal(Queue.Declare(queue="q", passive=True), 1)
    with (
        ThreadedServer(tmp_path) as server,
        connect(server.address) as greedy,
        connect(server.address) as modest,
    ):
        for client in (greedy, modest):
            client.open_channel()
        greedy.declare("q")
        handled.clear()

        def send_both() -> None:
            # On the loop: neither is read before both have sent.
            greedy.send_raw(ask_passive * MANY)
            modest.send_raw(ask_passive)

        server.call(send_both)
        for client, count in ((modest, 1), (greedy, MANY)):
            for _ in range(count):
                client.expect(Queue.DeclareOk)

    greedy_name = max(set(handled), key=handled.count)
    at = next(at for at, name in enumerate(handled) if name != greedy_name)
    assert at < 3, "the other client waited for all that this one asked for"
    assert handled.count(greedy_name) >= MANY


def test_replies_keep_their_order_over_time_slices(tmp_path: Path, handled: list[str]) -> None:
    names = [f"q{number}" for number in range(MANY)]
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.send_raw(
            b"".join(frame.marshal(Queue.Declare(queue=name, durable=True), 1) for name in names)
        )

        assert [client.expect(Queue.DeclareOk).queue for _ in names] == names
    assert len(handled) >= MANY


def test_the_log_names_the_client_and_the_method_of_a_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    declare = HANDLERS[QueueDeclare]

    def declare_slowly(channel: Any, method: Any) -> Any:  # noqa: ANN401
        time.sleep(0.15)
        return declare(channel, method)

    monkeypatch.setitem(HANDLERS, QueueDeclare, declare_slowly)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(7)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk, 7)
        stalls = ask(tmp_path, "status")["stalls"]

    shown = [stall["what"] for stall in stalls["last"]]
    assert any("channel=7 method=QueueDeclare" in what for what in shown), shown
    assert stalls["count"] >= 1
    assert stalls["longest_seconds"] >= 0.15
    assert sum(bucket["count"] for bucket in stalls["histogram"]) > stalls["count"]
    assert "event loop stalled" in caplog.text


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"\x00\x32\x00\x0a", "QueueDeclare"),
        (b"\x00\x32\x03\xe7", "50.999"),
        (b"\x00", "no method"),
    ],
)
def test_the_log_names_a_stall_in_a_method_that_cannot_be_decoded(
    payload: bytes, name: str
) -> None:
    event = MethodFrame(7, payload)

    assert (
        _text_of("peer", (event.channel, event.identity))
        == f"client='peer' channel=7 method={name}"
    )


def test_a_stop_handles_all_parked_methods_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was left after the first slice was dropped behind connection.close."""
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    sensor = SetSensor()
    with ThreadedServer(tmp_path, sensor=sensor, limits=LIMITS) as server:
        watched = Watched(server, sensor)
        with connect(server.address) as client:
            client.open_channel()
            for number in range(MANY):
                client.declare(f"q{number}", durable=True)
            watched.see(LOW_MEMORY)
            for number in range(MANY):
                client.publish(b"parked", f"q{number}")
            # Behind all publishes, and answered when they are parked.
            client.call(Channel.Open(), Channel.OpenOk, 2)
            server.stop()
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        assert sum(client.ready_count(f"q{number}") for number in range(MANY)) == MANY


def test_the_turns_of_a_server_report_to_the_collector_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[float] = []
    monkeypatch.setattr(collector, "note_work", worked.append)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"body", "q")
        client.get("q")

    assert sum(worked) > 0


@pytest.mark.parametrize("cause", ["deletion of the virtual host", "stop"])
def test_what_a_client_has_sent_before_it_is_closed_is_handled_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """All events of one connection were handled in one piece."""
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    turns: list[int] = []
    handle = ClientSession._handle

    def close() -> None:
        parts = server.server
        turn = parts.broker.turn
        closing = (
            parts.connections.close(HANG_SECONDS)
            if cause == "stop"
            else done_in_turns(turn, turn.upkeep, parts.connections.disconnect("v"), cause)
        )
        parts.tasks.spawn(closing)

    def noted(self: ClientSession, event: Event) -> Iterator[None] | None:
        turns.append(server.server.broker.turn.number)
        if len(turns) == 2:
            asyncio.get_running_loop().call_soon(close)
        return handle(self, event)

    with ThreadedServer(tmp_path) as server:
        server.run(lambda: server.server.vhost_changes.create("v"))
        with connect(server.address, vhost="v") as client:
            client.open_channel()
            monkeypatch.setattr(ClientSession, "_handle", noted)
            ask_passive = frame.marshal(Exchange.Declare(exchange="amq.topic", passive=True), 1)
            client.send_raw(ask_passive * MANY)
            for _ in range(MANY):
                client.expect(Exchange.DeclareOk)
            client.expect(Connection.Close, 0)
            client.send(Connection.CloseOk(), 0)
    assert len(turns) >= MANY
    assert max(Counter(turns).values()) <= 4, "many events were handled in one turn"


def test_the_ranges_of_a_deleted_queue_are_freed_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What returned between acked messages is a range for each: all were freed in one piece."""
    turns: list[int] = []
    take = SortedRuns.take_first_chunk
    freed: list[int] = []

    def noted(self: SortedRuns[Any]) -> list[Any]:
        turns.append(server.server.broker.turn.number)
        taken = take(self)
        freed.append(len(taken))
        return taken

    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", durable=False)
        for _ in range(10_000):
            client.publish(b"", "q")
        client.expect_confirmed()
        client.open_channel(2)
        client.consume("q", channel=2)
        for tag in range(1, 10_001):
            assert client.expect_delivery(2).tag == tag
        for tag in range(1, 10_001, 2):
            client.send(Basic.Ack(tag), channel=2)
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, channel=2)
        monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(SortedRuns, "take_first_chunk", noted)
        client.send(Queue.Delete(queue="q"))
        client.expect(Queue.DeleteOk)
        server.wait_until(lambda: sum(freed) == 5000)
        client.open_channel(2)
    assert max(freed) <= CHUNK_MAX
    assert len(set(turns)) > 3, "much was freed in one turn"
