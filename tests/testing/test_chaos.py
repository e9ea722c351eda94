"""Faults at random come again with the same seed, and break no promise of the broker."""

import asyncio
import re

import aio_pika
import pika
import pytest
from pika.exceptions import AMQPConnectionError, NackError

from amqp_server.testing import Broker
from tests.testing.test_broker import PERSISTENT, left

MESSAGES = [b"%d" % number for number in range(60)]


def connect(url: str, name: str) -> pika.adapters.blocking_connection.BlockingChannel:
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    found = pika.BlockingConnection(parameters).channel()
    found.confirm_delivery()
    found.basic_qos(prefetch_count=1)
    return found


def publish_all(url: str) -> int:
    """Publish each message until it is confirmed; return how often that failed."""
    failed = 0
    found = connect(url, "shop")
    found.queue_declare("orders", durable=True)
    for body in MESSAGES:
        while True:
            try:
                found.basic_publish("", "orders", body, PERSISTENT)
                break
            except NackError:
                failed += 1
            except AMQPConnectionError:
                failed += 1
                found = connect(url, "shop")
    found.connection.close()
    return failed


def consume_all(broker: Broker) -> list[bytes]:
    """Acknowledge each message, one after the other, until there are none; return them."""
    got: list[bytes] = []
    while True:
        found = connect(broker.url, "worker")
        try:
            for method, _, body in found.consume("orders", inactivity_timeout=0.01):
                if method is not None:
                    got.append(body)
                    found.basic_ack(method.delivery_tag)
                    continue
                orders = broker.queue("orders")
                if not orders.ready and not orders.unacked:
                    found.connection.close()
                    return got
        except AMQPConnectionError:
            continue


def run(seed: int | None) -> tuple[tuple[str, ...], int, list[bytes]]:
    with Broker() as broker, broker.chaos(seed, messages_mean=8) as chaos:
        failed = publish_all(broker.url)
        got = consume_all(broker)
    return chaos.happened, failed, got


def test_the_same_seed_gives_the_same_faults_and_another_one_others() -> None:
    happened, failed, got = run(7)
    assert run(7) == (happened, failed, got)
    assert run(8)[0] != happened
    kinds = {fault.split(" of ")[0].rstrip(" 0123456789") for fault in happened + run(8)[0]}
    ends = {
        f"{end} at {what}" for end in ("close", "cut", "lose") for what in ("confirm", "delivery")
    }
    assert kinds == ends | {"nack at confirm"}
    # Each message was confirmed once, and each unconfirmed publish is a duplicate.
    assert failed == sum(" at confirm " in fault for fault in happened)
    assert set(got) == set(MESSAGES)
    assert len(got) == len(MESSAGES) + failed


def test_the_seed_is_printed_and_a_new_one_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    with Broker() as broker:
        for _ in range(2):
            with broker.chaos() as chaos:
                assert re.fullmatch(r"chaos seed=\d+\n", printed := capsys.readouterr().out)
                assert printed == f"chaos seed={chaos.seed}\n"
            seeds.add(chaos.seed)
    assert len(seeds) == 2


async def test_publishes_that_share_a_confirm_are_counted_one_by_one() -> None:
    async def failed(broker: Broker) -> tuple[tuple[str, ...], list[int]]:
        with broker.new_vhost() as vhost:
            async with await aio_pika.connect(vhost.url) as connection:
                exchange = (await connection.channel()).default_exchange
                await exchange.publish(aio_pika.Message(b"before"), "orders", mandatory=False)
                with vhost.chaos(2, messages_mean=15) as chaos:
                    results = await asyncio.gather(
                        *(
                            exchange.publish(aio_pika.Message(body), "orders", mandatory=False)
                            for body in MESSAGES
                        ),
                        return_exceptions=True,
                    )
            failed = [at for at, each in enumerate(results, 1) if isinstance(each, Exception)]
            return chaos.happened, failed

    async with Broker() as broker:
        happened, numbers = await failed(broker)
        assert happened
        assert numbers[0] == int(happened[0].split()[3])
        for _ in range(3):
            assert await failed(broker) == (happened, numbers)


def test_one_virtual_host_has_chaos_and_others_do_not() -> None:
    with Broker() as broker, broker.new_vhost() as quiet, broker.new_vhost() as wild:
        with wild.chaos(7, messages_mean=2) as chaos:
            assert publish_all(quiet.url) == 0
            assert chaos.happened == ()
            assert publish_all(wild.url) == len(chaos.happened) > 0
        assert publish_all(wild.url) == 0
        assert left(quiet.url, "orders") == MESSAGES
