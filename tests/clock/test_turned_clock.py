"""What turning a clock promises: order, rest, bounds, and clear errors."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange

from amqp_server.base.config import ServerConfig
from amqp_server.start_and_stop import start
from amqp_server.testing.clock import ClockError, TurnedClock
from tests.amqp_client import PERSISTENT, AmqpClient, ConnectionLostError, connect
from tests.conformance.routing import bind_queue
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

HOUR_MS = 3_600_000


def dead_letters_to(queue: str, **others: Any) -> dict[str, Any]:  # noqa: ANN401 - any argument
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, **others}


def lifetime(milliseconds: int) -> Basic.Properties:
    return Basic.Properties(delivery_mode=2, expiration=str(milliseconds))


def bodies(client: AmqpClient, queue: str) -> list[bytes]:
    """Take all that a queue has."""
    found = []
    while message := client.get(queue):
        found.append(message.body)
    return found


def declare_delayed(client: AmqpClient, exchange: str) -> None:
    arguments: Any = {"x-delayed-type": "fanout"}
    client.call(
        Exchange.Declare(exchange=exchange, exchange_type="x-delayed-message", arguments=arguments),
        Exchange.DeclareOk,
    )


def test_events_of_one_span_happen_in_the_order_of_their_times(
    client: AmqpClient, clock: TurnedClock
) -> None:
    """Whatever they are, and in whatever order they were asked for."""
    client.declare("seen")
    declare_delayed(client, "later")
    bind_queue(client, "seen", "later", "")
    client.declare("waits", arguments=dead_letters_to("seen"))
    half_an_hour = {"x-message-ttl": HOUR_MS // 2}
    client.declare("half an hour", arguments=dead_letters_to("seen", **half_an_hour))
    for minutes in (50, 10, 40):
        client.publish(b"%d" % minutes, "waits", properties=lifetime(minutes * 60_000))
    delayed = Basic.Properties(headers={"x-delay": HOUR_MS // 3}, delivery_mode=2)
    client.publish(b"20", "", "later", properties=delayed)
    client.publish(b"30", "half an hour")

    clock.advance(hours=1)

    assert bodies(client, "seen") == [b"10", b"20", b"30", b"40", b"50"]


def test_what_an_event_starts_belongs_to_the_span(client: AmqpClient, clock: TurnedClock) -> None:
    """Ten queues in a row, six minutes each: an hour and no more leads through all of them."""
    for number in range(10):
        arguments = dead_letters_to(f"q{number + 1}", **{"x-message-ttl": HOUR_MS // 10})
        client.declare(f"q{number}", arguments=arguments)
    client.declare("q10")
    client.publish(b"x", "q0")
    clock.advance(minutes=59)
    assert client.ready_count("q9") == 1
    clock.advance(minutes=1)
    assert bodies(client, "q10") == [b"x"]


def test_what_was_sent_before_the_call_was_there_before_the_span(
    client: AmqpClient, clock: TurnedClock
) -> None:
    """Although no confirm says that the broker has it."""
    client.declare("seen")
    client.declare("q", arguments=dead_letters_to("seen", **{"x-message-ttl": HOUR_MS}))
    one = client.publish_octets(Basic.Publish(routing_key="q"), bytes(1_000), PERSISTENT)
    client.send_raw(one * 2_000)
    clock.advance(hours=1)
    assert client.ready_count("q") == 0
    assert client.ready_count("seen") == 2_000


def test_without_turns_the_clock_goes_on_at_real_speed(
    client: AmqpClient, clock: TurnedClock
) -> None:
    began, began_seconds = clock.now, time.monotonic()
    client.declare("seen")
    client.consume("seen")
    client.declare("q", arguments=dead_letters_to("seen", **{"x-message-ttl": 50}))
    client.publish(b"x", "q")
    assert client.expect_delivery().body == b"x"
    passed_seconds = (clock.now - began).total_seconds()
    assert 0.05 <= passed_seconds <= time.monotonic() - began_seconds + 0.001


def test_what_is_not_due_at_the_end_of_a_turn_comes_by_itself(
    client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("seen")
    client.consume("seen")
    client.declare("q", arguments=dead_letters_to("seen", **{"x-message-ttl": HOUR_MS}))
    client.publish(b"x", "q")
    clock.advance(milliseconds=HOUR_MS - 100)
    assert client.expect_delivery().body == b"x"


def test_a_clock_that_stands_still_goes_on_by_turns_only(tmp_path: Path) -> None:
    clock = TurnedClock(stands_still=True)
    with ThreadedServer(tmp_path, clock=clock) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-message-ttl": 2})
        client.publish(b"x", "q")
        began = clock.now
        clock.advance(milliseconds=1)
        time.sleep(0.01)
        assert client.ready_count("q") == 1
        clock.advance(milliseconds=1)
        assert client.ready_count("q") == 0
        assert (clock.now - began).total_seconds() == 0.002


def test_a_part_of_a_millisecond_keeps_no_message(tmp_path: Path) -> None:
    """The timer of the first one would look at the second half a millisecond too late."""
    clock = TurnedClock(stands_still=True)
    with ThreadedServer(tmp_path, clock=clock) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("seen")
        client.declare("q", arguments=dead_letters_to("seen", **{"x-message-ttl": 10}))
        clock.advance(milliseconds=1.75 - clock.monotonic() * 1_000 % 1)
        client.publish(b"first", "q")
        clock.advance(milliseconds=0.5)
        client.publish(b"second", "q")
        clock.advance(milliseconds=10)
        assert bodies(client, "seen") == [b"first", b"second"]


def test_time_passes_for_who_waits_for_almost_nothing(tmp_path: Path) -> None:
    """A wait that is rounded to nothing would never see its end: the clock stands."""
    clock = TurnedClock(stands_still=True)
    with ThreadedServer(tmp_path, clock=clock) as server:
        ended: list[float] = []
        end = clock.monotonic() + 1e-7

        def wait_again() -> None:
            if clock.monotonic() < end:
                clock.call_later(1e-12, wait_again)
            else:
                ended.append(clock.monotonic())

        server.call(lambda: clock.call_later(1e-12, wait_again))
        clock.advance(milliseconds=1, seconds_max=HANG_SECONDS)
        assert ended


def test_a_broker_that_starts_again_goes_on_at_its_time(tmp_path: Path) -> None:
    clock = TurnedClock()
    for day in range(2):
        with ThreadedServer(tmp_path, clock=clock) as server, connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q", arguments={"x-message-ttl": 36 * HOUR_MS})
            # The message of the first day is 24 hours old, and not from the future.
            assert client.ready_count("q") == day
            client.publish(b"%d" % day, "q", properties=PERSISTENT)
            client.expect_confirmed()
            clock.advance(hours=12)
        clock.advance(hours=12)
    with ThreadedServer(tmp_path, clock=clock) as server, connect(server.address) as client:
        client.open_channel()
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: not queue.loading.is_loading)
        assert bodies(client, "q") == [b"1"]


async def test_on_one_event_loop_the_timers_of_a_broker_end_with_it(tmp_path: Path) -> None:
    """They would keep it in memory, and work on queues that another one has now."""
    clock = TurnedClock()
    config = ServerConfig(port=0, storage_path=tmp_path)
    called: list[str] = []
    first = await start(config, clock=clock)
    clock.call_later(60, lambda: called.append("first"))
    await first.stop()
    second = await start(config, clock=clock)
    clock.call_later(60, lambda: called.append("second"))
    await clock.advance_async(hours=1)
    assert called == ["second"]
    await second.stop()


def test_a_broker_that_finds_no_rest_is_an_error_that_says_so(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("q")
    client.publish(b"again", "q")
    with connect(server.address) as consumer:
        consumer.open_channel()
        consumer.consume("q", prefetch=1)
        # The broker is not at rest when the call begins: this delivery is not acknowledged.
        first = consumer.expect_delivery().tag

        def requeue() -> None:
            tag = first
            try:
                while True:
                    consumer.send(Basic.Nack(tag, requeue=True))
                    tag = consumer.expect_delivery().tag
            except (ConnectionLostError, OSError):
                return

        thread = threading.Thread(target=requeue, daemon=True)
        thread.start()
        with pytest.raises(ClockError, match=r"did not come to rest within 0\.3 s .*requeue"):
            clock.advance(
                hours=1,
                answer_seconds=HANG_SECONDS,
                seconds_max=0.3,  # short: it is what ends the call
            )
        consumer.socket.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_timers_without_end_are_an_error_too(client: AmqpClient, clock: TurnedClock) -> None:
    """A cycle that the broker does not cut, because a client has rejected the message once."""
    client.declare("a", arguments=dead_letters_to("b", **{"x-message-ttl": 1}))
    client.declare("b", arguments=dead_letters_to("a"))
    client.consume("b", prefetch=1)
    client.publish(b"x", "a")
    stop = threading.Event()

    def reject() -> None:
        while not stop.is_set():
            client.send(Basic.Reject(client.expect_delivery().tag, requeue=False))

    thread = threading.Thread(target=reject, daemon=True)
    thread.start()
    with pytest.raises(ClockError, match="pass a larger seconds_max"):
        clock.advance(
            days=365,
            answer_seconds=HANG_SECONDS,
            seconds_max=0.3,  # short: it is what ends the call
        )
    stop.set()
    thread.join()


def test_a_broker_that_stops_ends_the_call(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("q")
    client.consume("q")
    client.publish(b"is not answered", "q")
    client.expect_delivery()
    began = clock.now
    errors: list[ClockError] = []

    def turn() -> None:
        try:
            clock.advance(hours=1, answer_seconds=HANG_SECONDS)
        except ClockError as error:
            errors.append(error)

    thread = threading.Thread(target=turn)
    thread.start()
    # The clock stands while it is turned.
    server.wait_until(lambda: clock.monotonic() == clock.monotonic())
    server.stop()
    thread.join()
    assert [str(error) for error in errors] == ["the broker stopped while its clock was turned"]
    assert (clock.now - began).total_seconds() < 60


def test_a_span_may_be_turned_by_many_threads(client: AmqpClient, clock: TurnedClock) -> None:
    began = clock.now
    client.declare("q", arguments={"x-message-ttl": HOUR_MS})
    client.publish(b"x", "q")
    threads = [threading.Thread(target=clock.advance, kwargs={"minutes": 10}) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 <= (clock.now - began).total_seconds() - 3_600 < 60
    assert client.ready_count("q") == 0


def test_on_its_own_event_loop_a_broker_is_turned_with_await(
    server: ThreadedServer, client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("q", arguments={"x-message-ttl": HOUR_MS})
    client.publish(b"x", "q")
    with pytest.raises(ClockError, match="advance_async"):
        server.call(lambda: clock.advance(hours=1))
    server.run(lambda: clock.advance_async(hours=1))
    assert client.ready_count("q") == 0


def test_a_clock_without_a_broker_is_an_error_before_there_was_one() -> None:
    with pytest.raises(ClockError, match=r"start the broker first"):
        TurnedClock().advance(seconds=1)


def test_a_clock_goes_on_only(clock: TurnedClock) -> None:
    with pytest.raises(ValueError, match="goes on only"):
        clock.advance(hours=1, minutes=-61)


def test_two_brokers_need_two_clocks(
    tmp_path: Path, client: AmqpClient, clock: TurnedClock
) -> None:
    client.declare("seen")
    client.declare("q", arguments=dead_letters_to("seen", **{"x-message-ttl": HOUR_MS}))
    client.publish(b"x", "q")
    clock.advance()
    with pytest.raises(ClockError, match="each needs one of its own"):
        ThreadedServer(tmp_path / "other", clock=clock).__enter__()
    # The first one has kept it, with its timers.
    clock.advance(hours=1)
    assert bodies(client, "seen") == [b"x"]
