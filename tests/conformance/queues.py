"""Steps that many tests of queues share."""

from typing import Any

from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import PERSISTENT, AmqpClient, Message
from tests.conformance.errors import expect_channel_error
from tests.conformance.polling import eventually

Arguments = dict[str, Any]
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)


def expect_refused(
    client: AmqpClient, explanation: str, method: type[Frame] = Queue.Declare
) -> None:
    """Return when the channel was closed with 406 and this explanation, and is open again."""
    expect_channel_error(client, 406, f"PRECONDITION_FAILED - {explanation}", method)
    client.open_channel()


def expect_declaration_refused(
    client: AmqpClient,
    queue: str,
    explanation: str,
    *,
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Arguments | None = None,
) -> None:
    """Declare a queue and return when that was refused; `{}` in the explanation is its name."""
    client.send(Queue.Declare(0, queue, False, durable, exclusive, auto_delete, False, arguments))
    expect_refused(client, explanation.format(f"queue '{queue}' in vhost '/'"))


def exists(client: AmqpClient, queue: str) -> bool:
    """Whether there is such a queue: a passive declaration, on a channel of its own."""
    client.open_channel(number=2047)
    client.send(Queue.Declare(queue=queue, passive=True), 2047)
    _, answer = client.receive()
    if isinstance(answer, Channel.Close):
        assert answer.reply_code == 404, f"{answer.reply_code} {answer.reply_text}"
        client.send(Channel.CloseOk(), 2047)
        return False
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 2047)
    return True


def leave(client: AmqpClient) -> None:
    """Close the connection; all that goes with it is gone when this returns."""
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)


def publish_all(
    client: AmqpClient, queue: str, *bodies: bytes, properties: Basic.Properties = PERSISTENT
) -> None:
    """Publish and wait for the confirms; the client confirms on channel 1."""
    for body in bodies:
        client.publish(body, queue, properties=properties)
    client.expect_confirmed()


def take(client: AmqpClient, queue: str, *, no_ack: bool = True) -> Message:
    """Get one message as soon as there is one."""
    message = eventually(lambda: client.get(queue, no_ack=no_ack))
    assert message is not None
    return message


def outlive(client: AmqpClient, name: str, milliseconds: int) -> None:
    """Return when whatever the broker was to do in so many milliseconds has been due.

    A message with that lifetime, published now, has become a dead letter.

    Args:
        client: Not in confirm mode.
        name: Free; both queues of this name go.
        milliseconds: By the broker's clock.
    """
    expired = f"{name}-expired"
    client.declare(expired)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": expired}
    client.declare(name, arguments=arguments | {"x-message-ttl": milliseconds})
    client.publish(b"", name)
    take(client, expired)
    for queue in (name, expired):
        client.call(Queue.Delete(queue=queue), Queue.DeleteOk)


def expect_usable(client: AmqpClient, queue: str) -> None:
    """Return when a message has come through a queue that was empty."""
    client.publish(b"through", queue)
    assert take(client, queue).body == b"through"


def expect_compared(
    client: AmqpClient, queue: str, arguments: Arguments, argument: str, other: object
) -> None:
    """Return when a queue was declared, works, and must not be declared with another value.

    For an argument that changes nothing a client could see.

    Args:
        client: With channel 1 open.
        queue: Its name; there is none yet.
        arguments: What it is declared with.
        argument: One of them.
        other: Another value that it may have.
    """
    client.declare(queue, arguments=arguments)
    expect_usable(client, queue)
    client.declare(queue, arguments=arguments)
    expect_declaration_refused(
        client,
        queue,
        f"inequivalent arg '{argument}' for {{}}: "
        f"received '{other}' but current is '{arguments[argument]}'",
        arguments=arguments | {argument: other},
    )


def headers_of(message: Message) -> dict[str, Any]:
    """Return the headers of a message that has some."""
    assert message.properties.headers is not None, "no headers"
    return dict(message.properties.headers)


def await_ready_count(client: AmqpClient, queue: str, count: int) -> None:
    """Return when so many messages are ready."""
    eventually(lambda: client.ready_count(queue) == count)


def reject(client: AmqpClient, message: Message, *, requeue: bool = False) -> None:
    """Reject one delivery."""
    client.send(Basic.Reject(message.tag, requeue))
