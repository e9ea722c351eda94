"""Makes thumbnails on request, with aio-pika: a request has a reply."""

import aio_pika


async def serve(url, shrink, ready):
    """Answer requests until the task is cancelled; an image that cannot be shrunk is rejected."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("images.dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "images.dead"}
        queue = await channel.declare_queue("images", arguments=arguments)
        async with queue.iterator() as messages:
            ready.set()
            async for message in messages:
                async with message.process():
                    reply = aio_pika.Message(shrink(message.body))
                    await channel.default_exchange.publish(reply, message.reply_to)


async def request(url, image):
    """Return the thumbnail of an image."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        replies = await channel.declare_queue(exclusive=True)
        message = aio_pika.Message(image, reply_to=replies.name)
        await channel.default_exchange.publish(message, "images")
        async with replies.iterator() as messages:
            async for reply in messages:
                await reply.ack()
                return reply.body
