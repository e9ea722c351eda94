"""Transactions as clients offer them: pika's blocking methods, aio-pika's context manager."""

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

pytestmark = pytest.mark.interop


def test_pika_commits_and_rolls_back(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    channel.tx_select()
    channel.basic_publish("", name, b"dropped")
    channel.tx_rollback()
    channel.basic_publish("", name, b"kept")
    assert channel.basic_get(name) == (None, None, None)
    channel.tx_commit()
    method, _, body = channel.basic_get(name)
    assert body == b"kept"
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_nack(method.delivery_tag)
    channel.tx_commit()
    method, _, body = channel.basic_get(name)
    assert (method.redelivered, body) == (True, b"kept")
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.queue_delete(name)


def test_pika_hears_that_a_channel_is_not_transactional(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_commit()
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    )


async def test_aio_pika_commits_at_the_end_of_a_block_and_rolls_back_at_an_error(
    url: str, name: str
) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(name, durable=True)
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"kept"), name)
            assert await queue.get(fail=False) is None
        with pytest.raises(ZeroDivisionError):
            await publish_and_fail(channel, name)
        message = await queue.get(fail=False)
        assert message is not None
        assert message.body == b"kept"
        assert await queue.get(fail=False) is None
        await queue.delete(if_unused=False, if_empty=False)


async def publish_and_fail(channel: AbstractChannel, queue: str) -> None:
    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"dropped"), queue)
        raise ZeroDivisionError
