"""aio-pika against a real broker: `pip install amqp-server aio-pika pytest-asyncio`.

The wiring is one line: `aio_pika.connect(amqp_url)`. The marker is needed in the mode "strict" of
pytest-asyncio only. A wait of the broker ends in `until_...` here: the others would block the loop.
"""

import asyncio

import pytest
import thumbnails

pytestmark = pytest.mark.asyncio


async def serve_while(url, shrink, work):
    """Let `work` meet a running service."""
    ready = asyncio.Event()
    serving = asyncio.create_task(thumbnails.serve(url, shrink, ready))
    await ready.wait()
    try:
        async with asyncio.timeout(5):
            return await work
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_thumbnail_comes_back(amqp_url):
    request = thumbnails.request(amqp_url, b"a large image")
    assert await serve_while(amqp_url, lambda image: image[:7], request) == b"a large"


async def test_an_image_that_breaks_the_service_is_a_dead_letter(amqp_broker):
    def fail(image):
        raise ValueError("no image")

    async def send():
        request = asyncio.create_task(thumbnails.request(amqp_broker.url, b"poison"))
        await amqp_broker.queue("images.dead").until_holds(1)
        request.cancel()
        await asyncio.wait([request])

    with pytest.raises(ValueError, match="no image"):
        await until_it_fails(amqp_broker.url, fail, send())
    (dead,) = amqp_broker.queue("images.dead").messages()
    assert dead.body == b"poison"


async def until_it_fails(url, shrink, work):
    """Let `work` meet a service that fails; raise its error."""
    ready = asyncio.Event()
    serving = asyncio.create_task(thumbnails.serve(url, shrink, ready))
    await ready.wait()
    await work
    async with asyncio.timeout(5):
        await serving


async def test_a_request_may_wait_for_a_day(amqp_broker):
    """Nothing expires in the queue; the asyncio way to turn the clock is `advance_async`."""
    await serve_while(amqp_broker.url, bytes, asyncio.sleep(0))
    request = asyncio.create_task(thumbnails.request(amqp_broker.url, b"image"))
    await amqp_broker.queue("images").until_holds(1)
    await amqp_broker.clock.advance_async(days=1)
    assert await serve_while(amqp_broker.url, bytes.upper, request) == b"IMAGE"
