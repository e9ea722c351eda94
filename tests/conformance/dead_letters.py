"""Makes dead letters and reads their header `x-death`."""

from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, Message
from tests.conformance.queues import Arguments, headers_of, reject, take


def deaths(message: Message) -> list[tuple[str, str, int]]:
    """Return queue, reason and count of each death, in the order of the header."""
    return [
        (each["queue"], each["reason"], each["count"]) for each in headers_of(message)["x-death"]
    ]


def to(queue: str) -> Arguments:
    """Return the arguments of a queue whose dead letters go into another."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def die(
    client: AmqpClient, queue: str, properties: Basic.Properties | None = None, body: bytes = b"x"
) -> None:
    """Publish to a queue, take it there and reject it."""
    client.publish(body, queue, properties=properties or Basic.Properties())
    reject(client, take(client, queue, no_ack=False))
