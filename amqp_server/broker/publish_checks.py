"""What the properties of a message must be like before it is taken in.

Looked at only where a run's flags say that one of these properties is there, and once for
messages in a row whose properties are the same octets.

Source: RabbitMQ, `rabbit_channel:handle_method(#'basic.publish'{})`, for the order and the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.expiration import check_expiration
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.property_octets import EXPIRATION, USER_ID, find_property
from appendlog.message import body_position, properties_position

if TYPE_CHECKING:
    from amqp_server.broker.client import Client

CHECKED_PROPERTIES = USER_ID | EXPIRATION
"""Property flags of which at least one must be set for a run to be checked."""


def good_ones(
    messages: list[bytes], property_flags: int, client: Client
) -> tuple[list[bytes], PreconditionFailed | None]:
    """Return the messages of a run before the first that must be refused, and why that is so.

    Args:
        messages: A run; all of them have the properties of `property_flags`.
        property_flags: The first word of their flags.
        client: Who publishes them.
    """
    head = None
    for at, message in enumerate(messages):
        if head is not None and message.startswith(head):
            continue
        head = message[: body_position(message)]
        try:
            _check(head[properties_position(head) :], property_flags, client)
        except PreconditionFailed as fault:
            return messages[:at], fault
    return messages, None


def _check(properties: bytes, flags: int, client: Client) -> None:
    if flags & USER_ID:
        _check_user_id(properties, client)
    if flags & EXPIRATION:
        start, end = find_property(properties, EXPIRATION)
        check_expiration(properties[start + 1 : end])


def _check_user_id(properties: bytes, client: Client) -> None:
    start, end = find_property(properties, USER_ID)
    user_id = properties[start + 1 : end].decode("utf-8", "surrogateescape")
    if user_id != client.user:
        raise PreconditionFailed(
            f"user_id property set to '{user_id}' but authenticated user was '{client.user}'",
            60,
            40,
        )
