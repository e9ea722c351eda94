"""What takes a broker an hour happens at once when its clock is turned."""

import threading
from datetime import UTC, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue
from pamqp.heartbeat import Heartbeat

from amqp_server.testing.clock import TurnedClock
from amqp_server.upkeep.checkpointer import CheckpointReport
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.clock.test_turned_clock import HOUR_MS, bodies, dead_letters_to, lifetime
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

BODY = bytes(10_000)
SEGMENT_MESSAGES = 6
"""Messages of `BODY` in a segment of 64 KiB."""


def exists(client: AmqpClient, queue: str) -> bool:
    client.send(Queue.Declare(queue=queue, passive=True))
    _, answer = client.receive()
    if isinstance(answer, Channel.Close):
        client.send(Channel.CloseOk())
        client.open_channel()
        return False
    assert isinstance(answer, Queue.DeclareOk)
    return True


@pytest.mark.parametrize("of_queue", [True, False], ids=["queue", "message"])
def test_messages_expire_when_their_time_has_come_and_not_before(
    client: AmqpClient, clock: TurnedClock, of_queue: bool
) -> None:
    client.declare("q", arguments={"x-message-ttl": HOUR_MS} if of_queue else {})
    client.publish(b"x", "q", properties=PERSISTENT if of_queue else lifetime(HOUR_MS))
    client.publish(b"for ever", "q", properties=lifetime(100 * HOUR_MS))
    clock.advance(minutes=59)
    assert client.ready_count("q") == 2
    clock.advance(minutes=1)
    assert client.ready_count("q") == (0 if of_queue else 1)


def test_an_unused_queue_goes_and_a_used_one_stays(client: AmqpClient, clock: TurnedClock) -> None:
    for name in ("used", "unused"):
        client.declare(name, arguments={"x-expires": HOUR_MS})
    clock.advance(minutes=59)
    assert client.get("used") is None
    clock.advance(minutes=59)
    assert exists(client, "used")
    assert not exists(client, "unused")


def test_what_a_span_deletes_is_gone_from_the_disk_when_the_call_returns(
    tmp_path: Path, client: AmqpClient, clock: TurnedClock
) -> None:
    for number in range(20):
        client.declare(f"q{number}", arguments={"x-expires": HOUR_MS})
        client.publish(b"x", f"q{number}", properties=PERSISTENT)
    clock.advance()
    assert len(list(tmp_path.glob("metadata/queues/*/*.json"))) == 20
    assert len(list(tmp_path.glob("logs/**/*.log"))) == 20
    clock.advance(hours=1)
    assert not list(tmp_path.glob("metadata/queues/*/*.json"))
    assert not list(tmp_path.glob("logs/**/*.log"))


def test_a_death_has_the_time_of_the_clock(client: AmqpClient, clock: TurnedClock) -> None:
    client.declare("dead")
    client.declare("q", arguments=dead_letters_to("dead"))
    began = clock.now
    client.publish(b"x", "q", properties=lifetime(24 * HOUR_MS))
    clock.advance(days=2)
    message = client.get("dead")
    assert message is not None
    headers: Any = message.properties.headers
    died = headers["x-death"][0]["time"].replace(tzinfo=UTC)
    # In whole seconds, rounded down.
    assert timedelta(hours=24, seconds=-1) <= died - began < timedelta(hours=25)


def test_delayed_messages_arrive(client: AmqpClient, clock: TurnedClock) -> None:
    arguments: Any = {"x-delayed-type": "direct"}
    client.call(
        Exchange.Declare(exchange="x", exchange_type="x-delayed-message", arguments=arguments),
        Exchange.DeclareOk,
    )
    client.declare("q")
    client.call(Queue.Bind(queue="q", exchange="x", routing_key="q"), Queue.BindOk)
    for minutes in (20, 10):
        properties = Basic.Properties(headers={"x-delay": minutes * 60_000}, delivery_mode=2)
        client.publish(b"%d" % minutes, "q", "x", properties=properties)
    clock.advance(minutes=19)
    assert bodies(client, "q") == [b"10"]
    clock.advance(minutes=1)
    assert bodies(client, "q") == [b"20"]


BACK_OFF_MINUTES = (1, 4, 16, 39)
"""Pauses between five attempts: one hour."""


def declare_retries(client: AmqpClient) -> None:
    """Declare a queue of work, and one queue for each pause; the last attempt goes to `failed`."""
    client.declare("work")
    client.declare("failed")
    for number, minutes in enumerate(BACK_OFF_MINUTES):
        arguments = dead_letters_to("work", **{"x-message-ttl": minutes * 60_000})
        client.declare(f"retry-{number}", arguments=arguments)


def test_retries_with_back_off_take_an_hour(client: AmqpClient, clock: TurnedClock) -> None:
    declare_retries(client)
    client.publish(b"task", "work")
    for number, minutes in enumerate(BACK_OFF_MINUTES):
        message = client.get("work")
        assert message is not None
        client.publish(message.body, f"retry-{number}")
        clock.advance(minutes=minutes, seconds=-30)
        assert client.ready_count("work") == 0
        clock.advance(seconds=30)
    assert bodies(client, "work") == [b"task"]


def test_a_consumer_in_a_thread_retries_within_one_span(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    """A program with pika that fails five times, and one turn of an hour."""
    declare_retries(client)
    host, port = server.address
    attempts = []
    is_ready = threading.Event()

    def fail(channel: Any, method: Any, _: object, body: bytes) -> None:  # noqa: ANN401 - untyped
        attempts.append(clock.now)
        last = len(attempts) > len(BACK_OFF_MINUTES)
        target = "failed" if last else f"retry-{len(attempts) - 1}"
        channel.basic_publish("", target, body)
        channel.basic_ack(method.delivery_tag)
        if last:
            channel.stop_consuming()

    def work() -> None:
        with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
            channel = connection.channel()
            channel.basic_consume("work", fail)
            is_ready.set()
            channel.start_consuming()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert is_ready.wait(HANG_SECONDS)
    client.publish(b"task", "work")
    client.ready_count("work")  # the broker has it: its consumer is waited for
    clock.advance(hours=1, minutes=1, answer_seconds=HANG_SECONDS)
    thread.join(HANG_SECONDS)
    assert bodies(client, "failed") == [b"task"]
    gaps = [(after - before).total_seconds() for before, after in pairwise(attempts)]
    assert gaps == pytest.approx([60 * minutes for minutes in BACK_OFF_MINUTES], abs=1)


def test_an_at_least_once_dead_letter_is_tried_again(
    client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish(b"first", "full")
    strategy = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-message-ttl": HOUR_MS,
    }
    client.declare("q", arguments=dead_letters_to("full", **strategy))
    client.publish(b"second", "q")
    clock.advance(hours=2)
    assert bodies(client, "full") == [b"first"]
    clock.advance(minutes=1)
    assert bodies(client, "full") == [b"second"]


def test_a_consumer_that_does_not_answer_loses_its_channel(
    client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("q", arguments={"x-consumer-timeout": HOUR_MS})
    client.consume("q")
    client.publish(b"x", "q")
    client.expect_delivery()
    clock.advance(minutes=59)
    assert client.ready_count("q") == 0
    clock.advance(minutes=2)
    close = client.expect_channel_close(406)
    assert "delivery acknowledgement on channel 1 timed out" in close.reply_text
    client.open_channel()
    assert bodies(client, "q") == [b"x"]


def test_a_round_of_checkpoints_comes_in_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = TurnedClock(stands_still=True)
    with ThreadedServer(tmp_path, clock=clock) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"x", "q", properties=PERSISTENT)
        clock.advance()
        assert client.get("q") is not None
        queue = server.server.broker.vhosts["/"].queues["q"]
        clock.advance(seconds=4)
        assert queue.checkpointed_floor == 0
        clock.advance(seconds=1)
        assert queue.checkpointed_floor == 1
        # An hour has 720 rounds. Of those in which nothing happens, the last ones are kept.
        checkpointer = server.server.checkpointer
        write_round = checkpointer.write_round
        began: list[float] = []

        async def noted() -> CheckpointReport:
            began.append(clock.monotonic() - hour_began)
            return await write_round()

        monkeypatch.setattr(checkpointer, "write_round", noted)
        hour_began = clock.monotonic()
        clock.advance(hours=1)
        assert began == pytest.approx([3_590, 3_595, 3_600])


def test_a_stream_forgets_what_is_too_old(client: AmqpClient, clock: TurnedClock) -> None:
    """Two segments of the first hour go, and the one that is written stays."""
    arguments = {
        "x-queue-type": "stream",
        "x-stream-max-segment-size-bytes": 1,
        "x-max-age": "2h",
    }
    client.open_channel(2, confirms=True)
    client.declare("s", arguments=arguments)

    def fill(count: int) -> None:
        for _ in range(count):
            client.publish(BODY, "s", channel=2)
            client.expect_confirmed(2)

    fill(2 * SEGMENT_MESSAGES)
    clock.advance(hours=1)
    fill(2 * SEGMENT_MESSAGES)
    assert client.ready_count("s") == 4 * SEGMENT_MESSAGES
    clock.advance(hours=1, minutes=1)
    assert client.ready_count("s") == 2 * SEGMENT_MESSAGES
    clock.advance(hours=1)
    assert client.ready_count("s") == SEGMENT_MESSAGES


def test_settled_messages_are_kept_for_their_time(tmp_path: Path, clock: TurnedClock) -> None:
    """A segment is sealed by its age, and removed when nothing in it must be kept."""
    with (
        ThreadedServer(tmp_path, clock=clock, retain_for_seconds=86_400) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-segment-max-age": HOUR_MS})
        for _ in range(2):
            client.publish(b"x", "q", properties=PERSISTENT)
            client.expect_confirmed()
            assert client.get("q") is not None
            clock.advance(hours=12)
        log = server.server.broker.vhosts["/"].queues["q"].store.log
        assert (log.log_start_offset, log.log_end_offset) == (0, 2)
        clock.advance(hours=1)
        assert log.log_start_offset == 1
        clock.advance(hours=12)
        assert log.log_start_offset == 2


@pytest.mark.parametrize("group", [{}, {"x-consumer-group": "readers"}], ids=["alone", "group"])
@pytest.mark.parametrize("is_age", [True, False], ids=["age", "moment"])
def test_a_stream_is_read_from_a_time_of_the_clock(
    client: AmqpClient, clock: TurnedClock, is_age: bool, group: dict[str, Any]
) -> None:
    client.open_channel(2, confirms=True)
    client.declare("s", arguments={"x-queue-type": "stream"})
    for number in range(4):
        client.publish(b"%d" % number, "s", channel=2)
        client.expect_confirmed(2)
        clock.advance(hours=1)
    start = "150m" if is_age else clock.now - timedelta(minutes=150)
    client.consume("s", prefetch=10, arguments={"x-stream-offset": start, **group})
    assert [client.expect_delivery().body for _ in range(2)] == [b"2", b"3"]


def test_clients_that_live_keep_their_connections(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    """They had no time to send a heartbeat."""
    with connect(server.address, heartbeat_seconds=1) as beating:
        beating.open_channel()
        beating.declare("q", arguments={"x-message-ttl": HOUR_MS})
        clock.advance(days=1)
        assert exists(beating, "q")
    assert exists(client, "q")


def test_heartbeats_can_be_missed(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    """Who sends nothing during the call is dropped, and its message returns; others stay."""
    client.declare("q")
    client.publish(b"x", "q")
    with (
        connect(server.address, heartbeat_seconds=60) as silent,
        connect(server.address, heartbeat_seconds=600) as patient,
    ):
        silent.open_channel()
        patient.open_channel()
        assert silent.get("q", no_ack=False) is not None
        clock.advance(minutes=3, heartbeats=True)
        silent.expect_end()
        assert bodies(client, "q") == [b"x"]
        patient.send(Heartbeat(), 0)
        assert exists(patient, "q")
