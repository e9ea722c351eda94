"""Methods that a broker answers, as encoded frames: declare, bind and delete queues and exchanges.

Source: AMQP 0-9-1, sections 1.6 (exchange) and 1.7 (queue) of the method reference.
"""

from typing import NamedTuple

from bench.amqp_frames import EMPTY_TABLE, method_frame, short_string


class Request(NamedTuple):
    """One method that a broker answers.

    Attributes:
        octets: The method's frame.
        answer: Class and method number of the answer.
    """

    octets: bytes
    answer: tuple[int, int]


def declare_queue(
    channel: int,
    queue: str,
    *,
    durable: bool = False,
    exclusive: bool = False,
    passive: bool = False,
    arguments: bytes = EMPTY_TABLE,
) -> Request:
    """Declare a queue that is not deleted automatically.

    Args:
        channel: Number of the channel.
        queue: Name of the queue.
        durable: Whether the queue survives a restart of the broker.
        exclusive: Whether only this connection may use the queue.
        passive: Whether to ask for an existing queue instead of creating it.
        arguments: Arguments of the queue, an encoded table such as `text_table`.
    """
    flags = bytes((passive | durable << 1 | exclusive << 2,))
    encoded = b"\0\0" + short_string(queue) + flags + arguments
    return Request(method_frame(channel, 50, 10, encoded), (50, 11))


def delete_queue(channel: int, queue: str) -> Request:
    """Delete a queue with its messages; a queue that does not exist is no error."""
    encoded = b"\0\0" + short_string(queue) + b"\0"
    return Request(method_frame(channel, 50, 40, encoded), (50, 41))


def declare_exchange(channel: int, exchange: str, kind: str, *, durable: bool) -> Request:
    """Declare an exchange of a type: direct, fanout, topic, headers."""
    flags = bytes((durable << 1,))
    encoded = b"\0\0" + short_string(exchange) + short_string(kind) + flags + EMPTY_TABLE
    return Request(method_frame(channel, 40, 10, encoded), (40, 11))


def delete_exchange(channel: int, exchange: str) -> Request:
    """Delete an exchange with its bindings; an exchange that does not exist is no error."""
    encoded = b"\0\0" + short_string(exchange) + b"\0"
    return Request(method_frame(channel, 40, 20, encoded), (40, 21))


def bind_queue(
    channel: int, queue: str, exchange: str, key: str, arguments: bytes = EMPTY_TABLE
) -> Request:
    """Bind a queue to an exchange with a binding key and an encoded table of arguments."""
    names = short_string(queue) + short_string(exchange) + short_string(key)
    encoded = b"\0\0" + names + b"\0" + arguments
    return Request(method_frame(channel, 50, 20, encoded), (50, 21))


def unbind_queue(channel: int, queue: str, exchange: str, key: str) -> Request:
    """Remove the binding of a queue to an exchange with a binding key."""
    names = short_string(queue) + short_string(exchange) + short_string(key)
    return Request(method_frame(channel, 50, 50, b"\0\0" + names + EMPTY_TABLE), (50, 51))
