"""aio-pika: a publisher with WINDOW publishes at a time, or a consumer."""

import asyncio
import datetime
import json
import sys
import time
from pathlib import Path

import aio_pika

from bench.traffic.native import WINDOW
from bench.traffic.native.body import END, Verifier, headers, percentiles, read_bodies


async def main() -> None:
    """Run one role; see the package."""
    role, host, port, queue, seconds, directory = sys.argv[1:]
    connection = await aio_pika.connect(host=host, port=int(port))
    async with connection:
        channel = await connection.channel()
        if role == "publish":
            result = await publish(channel, queue, float(seconds), Path(directory))
        else:
            result = await consume(channel, queue)
        print(json.dumps(result), flush=True)


async def wait_for_start() -> None:
    """Report that the client is ready, and wait for the start."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def publish(
    channel: aio_pika.abc.AbstractChannel, queue: str, seconds: float, directory: Path
) -> dict[str, float]:
    """Publish for some seconds."""
    body = read_bodies(directory)
    exchange = channel.default_exchange
    latencies_ns: list[int] = []
    published = 0
    await wait_for_start()
    end_ns = time.monotonic_ns() + int(seconds * 1e9)

    async def publish_one_by_one() -> None:
        nonlocal published
        while (start_ns := time.monotonic_ns()) < end_ns:
            number = published
            published += 1
            message = aio_pika.Message(
                body(number),
                headers=dict(headers(number)),
                content_type="application/octet-stream",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=f"{number:032x}",
                timestamp=datetime.datetime.now(datetime.UTC),
                correlation_id=f"{number:032x}" if number % 3 == 0 else None,
            )
            await exchange.publish(message, queue)
            latencies_ns.append(time.monotonic_ns() - start_ns)

    await asyncio.gather(*(publish_one_by_one() for _ in range(WINDOW)))
    await exchange.publish(aio_pika.Message(END), queue)
    confirmed = len(latencies_ns)
    return {"published": published, "confirmed": confirmed, **dict(percentiles(latencies_ns))}


async def consume(channel: aio_pika.abc.AbstractChannel, name: str) -> dict[str, float]:
    """Consume until the last message."""
    verifier = Verifier()
    is_over = asyncio.Event()
    await channel.set_qos(WINDOW)
    queue = await channel.get_queue(name)

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        if message.body == END:
            is_over.set()
        else:
            verifier.take(message.body)

    await queue.consume(take)
    await wait_for_start()
    await is_over.wait()
    return dict(verifier.to_json())


if __name__ == "__main__":
    asyncio.run(main())
