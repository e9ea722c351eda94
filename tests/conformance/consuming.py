"""Starts consumers, publishes messages for them and returns their deliveries."""

from collections.abc import Iterable
from typing import Any, Final

from pamqp.commands import Basic, Channel

from tests.amqp_client import AmqpClient

_PUBLISHING_CHANNEL: Final = 1000


def consume(
    client: AmqpClient,
    queue: str,
    tag: str = "",
    *,
    no_ack: bool = False,
    exclusive: bool = False,
    arguments: Any = None,  # noqa: ANN401 - a table of any values
    channel: int = 1,
) -> str:
    """Begin to consume and return the consumer's tag; deliveries are the next frames."""
    client.send(Basic.Consume(0, queue, tag, False, no_ack, exclusive, False, arguments), channel)
    answered = client.expect(Basic.ConsumeOk, channel).consumer_tag
    assert answered
    return answered


def prefetch(client: AmqpClient, count: int, *, globally: bool = False, channel: int = 1) -> None:
    """Set a prefetch limit: of consumers, or of the channel."""
    client.call(Basic.Qos(0, count, globally), Basic.QosOk, channel)


def fill(client: AmqpClient, queue: str, count: int, **declared: Any) -> None:  # noqa: ANN401
    """Declare a queue and publish the messages `0`, `1`, ... into it; return when they are in."""
    client.declare(queue, **declared)
    publish_all(client, queue, [b"%d" % number for number in range(count)])


def publish_all(client: AmqpClient, queue: str, bodies: Iterable[bytes]) -> None:
    """Publish into a queue on a channel of its own, and return when all is confirmed."""
    client.open_channel(_PUBLISHING_CHANNEL, confirms=True)
    client.published[_PUBLISHING_CHANNEL] = 0
    for body in bodies:
        client.publish(body, queue, channel=_PUBLISHING_CHANNEL)
    if client.published[_PUBLISHING_CHANNEL]:
        client.expect_confirmed(_PUBLISHING_CHANNEL)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, _PUBLISHING_CHANNEL)


def take_unacked(client: AmqpClient, queue: str, count: int = 1) -> list[bytes]:
    """Take messages with basic.get that are to be acknowledged, and return their bodies."""
    bodies: list[bytes] = []
    for _ in range(count):
        message = client.get(queue, no_ack=False)
        assert message is not None, f"only {bodies}"
        bodies.append(message.body)
    return bodies


def drain(client: AmqpClient, queue: str) -> list[bytes]:
    """Take all that is ready and return the bodies."""
    return [message.body for message in iter(lambda: client.get(queue), None)]


def expect_bodies(client: AmqpClient, count: int, channel: int = 1) -> list[bytes]:
    """Return the bodies of the next deliveries, whichever consumer they are for."""
    return [client.expect_delivery(channel).body for _ in range(count)]


def expect_quiet(client: AmqpClient, queue: str, channel: int = 1) -> None:
    """Return when the queue has answered, twice, and no delivery came before.

    Once is not enough: the answer may overtake a delivery on its way to the client.
    """
    client.ready_count(queue, channel)
    client.ready_count(queue, channel)
