"""No client keeps the event loop for long, and the log names one that does."""

import time
from pathlib import Path
from typing import Any

import pytest
from pamqp import frame
from pamqp.commands import Channel, Queue

from amqp_server import time_slice
from amqp_server.broker.handlers import HANDLERS
from amqp_server.client_session import ClientSession, _text_of
from amqp_server.control.client import ask
from amqp_server.garbage_collection import collector
from amqp_server.protocol.framing import Event, MethodFrame
from amqp_server.protocol.methods import QueueDeclare
from tests.amqp_client import connect
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

    assert _text_of("peer", event) == f"client='peer' channel=7 method={name}"


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
