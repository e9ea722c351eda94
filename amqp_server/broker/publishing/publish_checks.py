"""Checks the properties of published messages, and fills in the key for direct replies.

Messages are checked only if their flags say that one of these properties is present. Consecutive
messages whose properties are the same octets are checked once. What a call carries besides its
reply-to is not looked at: its key is filled in by a kernel.

Source: RabbitMQ, `rabbit_channel:handle_method(#'basic.publish'{})`, for the order and the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.consuming.direct_reply import DIRECT_REPLY_TO
from amqp_server.broker.publishing.expiration import check_expiration
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.framing import CHECKED_PROPERTIES, with_reply_to
from amqp_server.protocol.methods import BasicPublish
from amqp_server.protocol.property_octets import (
    EXPIRATION,
    HEADERS,
    REPLY_TO,
    USER_ID,
    find_property,
)
from amqp_server.protocol.strings import encode_shortstr
from amqp_server.protocol.tables import has_more_values
from appendlog.layout.message import body_position, properties_position

if TYPE_CHECKING:
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.direct_reply import ReplyConsumer

_ASKED: Final = encode_shortstr(DIRECT_REPLY_TO)
"""Octets of a reply-to that asks for direct replies."""


class RequestingChannel(Protocol):
    """A channel, as the checks of its publishes see it."""

    @property
    def client(self) -> Client:
        """Connection of the channel."""

    @property
    def reply_consumer(self) -> ReplyConsumer | None:
        """Consumer of direct replies; None without one."""


def checked(
    messages: list[bytes], checked_flags: int, channel: RequestingChannel
) -> tuple[list[bytes], PreconditionFailed | None]:
    """Return the messages before the first one that must be refused, and the reason.

    If a message asks for direct replies, its `reply_to` becomes the channel's own key.

    Args:
        messages: Messages that all have the properties of `checked_flags`; not changed.
        checked_flags: Flags of the properties to check; others are ignored.
        channel: Channel on which they are published.
    """
    flags = checked_flags & CHECKED_PROPERTIES
    if not flags:
        return messages, None
    fault = None
    if flags & REPLY_TO:
        messages, fault = _with_reply_key(messages, channel.reply_consumer)
        if flags == REPLY_TO:
            return messages, fault
    head = b""
    for count, message in enumerate(messages):
        if not head or not message.startswith(head):
            head = message[: body_position(message)]
            try:
                _check_head(head, flags, channel)
            except PreconditionFailed as error:
                # Its traceback would refer to this call, and to all messages.
                return messages[:count], error.with_traceback(None)
    return messages, fault


def check_header_values(message: bytes, count_max: int) -> None:
    """Check how many values the headers of a message with headers have, in all levels.

    Raises:
        PreconditionFailed: They are more than `count_max`.
    """
    start, end = properties_position(message), body_position(message)
    if end - start <= count_max:
        # Each value has an octet at least.
        return
    properties = message[start:end]
    if has_more_values(properties, find_property(properties, HEADERS)[0], count_max):
        raise PreconditionFailed(
            f"invalid message: its headers have more than {count_max} values", *BasicPublish.ids
        )


def _with_reply_key(
    messages: list[bytes], consumer: ReplyConsumer | None
) -> tuple[list[bytes], PreconditionFailed | None]:
    """Return messages with the key of a consumer where direct replies are asked for.

    Without a consumer, they are those before the first one that asks, with the error.
    """
    key = _ASKED if consumer is None else consumer.key_octets
    keyed: list[bytes] = []
    for message in messages:
        answerable = with_reply_to(message, _ASKED, key)
        if answerable is None:
            keyed.append(message)
        elif consumer is None:
            return keyed, PreconditionFailed(
                "fast reply consumer does not exist", *BasicPublish.ids
            )
        else:
            keyed.append(answerable)
    return keyed, None


def _check_head(head: bytes, flags: int, channel: RequestingChannel) -> None:
    """Check user-id and expiration in a message's octets before its body.

    Raises:
        PreconditionFailed: One of them is wrong.
    """
    properties = head[properties_position(head) :]
    if flags & USER_ID:
        _check_user_id(properties, channel.client)
    if flags & EXPIRATION:
        check_expiration(_value(properties, EXPIRATION))


def _value(properties: bytes, flag: int) -> bytes:
    start, end = find_property(properties, flag)
    return properties[start + 1 : end]


def _check_user_id(properties: bytes, client: Client) -> None:
    user_id = _value(properties, USER_ID).decode("utf-8", "surrogateescape")
    if user_id != client.user and not client.rights.grants.may_impersonate:
        raise PreconditionFailed(
            f"user_id property set to '{user_id}' but authenticated user was '{client.user}'",
            *BasicPublish.ids,
        )
