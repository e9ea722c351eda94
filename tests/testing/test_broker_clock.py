"""The clock of the broker in a test run."""

import os

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp_server.testing import Broker, ClockError, TurnedClock
from tests.limits import HANG_SECONDS

HOUR_MS = 3_600_000
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def count(channel: BlockingChannel, queue: str) -> int:
    found: int = channel.queue_declare(queue, passive=True).method.message_count
    return found


def test_a_test_turns_the_clock_of_its_virtual_host() -> None:
    with (
        Broker() as broker,
        broker.new_vhost() as vhost,
        pika.BlockingConnection(pika.URLParameters(vhost.url)) as connection,
    ):
        channel = connection.channel()
        channel.queue_declare("q", arguments={"x-message-ttl": HOUR_MS})
        channel.basic_publish("", "q", b"x")
        vhost.clock.advance(minutes=59)
        assert count(channel, "q") == 1
        vhost.clock.advance(minutes=1)
        assert count(channel, "q") == 0


def test_an_outage_may_take_a_day() -> None:
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for hours in (12, 36):
                arguments = {"x-message-ttl": hours * HOUR_MS}
                channel.queue_declare(f"q{hours}", durable=True, arguments=arguments)
                channel.basic_publish("", f"q{hours}", b"x", PERSISTENT)
        before = broker.clock.now
        broker.stop()
        broker.clock.advance(days=1)
        broker.start()
        assert (broker.clock.now - before).days == 1
        broker.clock.advance()
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            assert [count(channel, f"q{hours}") for hours in (12, 36)] == [0, 1]


def test_a_clock_that_stands_still_is_passed_in() -> None:
    clock = TurnedClock(stands_still=True)
    with Broker(clock=clock) as broker:
        assert broker.clock is clock
        assert clock.now == clock.now


def test_a_broker_that_has_not_started_cannot_be_turned() -> None:
    with pytest.raises(ClockError, match="no broker goes by this clock"):
        Broker().clock.advance(hours=1)


def test_a_delivery_that_is_never_answered_is_waited_for_as_long_as_asked() -> None:
    with Broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        channel.basic_get("q")
        # The server looks after itself once in a second; that is no answer.
        broker.clock.advance(
            answer_seconds=1.5,  # short: no answer comes
            seconds_max=HANG_SECONDS,
        )
        assert broker.queue("q").unacked == 1


async def test_an_asyncio_test_turns_it_without_blocking_its_loop() -> None:
    async with Broker() as broker:
        before = broker.clock.now
        await broker.clock.advance_async(hours=1)
        assert (broker.clock.now - before).seconds >= 3_600


def test_the_clock_of_a_parents_broker_is_not_turned_in_a_fork() -> None:
    clock = TurnedClock()
    with Broker(clock=clock):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                clock.advance(seconds=1)
            except ClockError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        assert b"runs in the parent of this process" in os.read(reader, 1000)
        os.close(reader)
        clock.advance(seconds=1)
