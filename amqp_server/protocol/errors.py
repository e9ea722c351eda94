"""AMQP errors, one class for each reply code.

Soft errors close a channel, hard errors close the connection. Each class contains the reply code,
so that code which catches an `AmqpError` can answer it without checking its type.

The classes are named for their code names, which do not end in "Error" (hence the exemption).

Source: AMQP 0-9-1 specification, section 1.2 (reply codes and their soft or hard class).
"""

# ruff: noqa: N818
from typing import ClassVar, Self

from amqp_server.protocol.constants import ReplyCode

REPLY_TEXT_BYTES_MAX = 255
_CUT_MARK = b"..."
_CONTINUATION_MASK = 0xC0
_CONTINUATION_BITS = 0x80
_CHARACTER_BYTES_MAX = 4


class AmqpError(Exception):
    """A failure that is reported to the peer with a reply code and a text.

    Raise one of the subclasses. Catch `SoftError` to close the channel and `HardError` to close the
    connection.

    Attributes:
        reply_code: Number in channel.close or connection.close.
        reply_text: `"CODE_NAME - explanation"`, at most 255 bytes of UTF-8.
        class_id: Class of the method that failed, 0 if none did.
        method_id: Method that failed, 0 if none did.
    """

    reply_code: ClassVar[ReplyCode]

    def __init__(self, explanation: str, class_id: int = 0, method_id: int = 0) -> None:
        """Create the error.

        Args:
            explanation: What failed, where, what was found, what was expected. It is cut, and ends
                in `...`, if the reply text would exceed 255 bytes.
            class_id: Class of the method that failed, 0 if none did.
            method_id: Method that failed, 0 if none did.
        """
        super().__init__(explanation)
        self.reply_text = _truncate(f"{self.reply_code.name} - {explanation}")
        self.class_id = class_id
        self.method_id = method_id

    def with_method(self, class_id: int, method_id: int) -> Self:
        """Set the method that failed; return this error, so that it can be raised."""
        self.class_id = class_id
        self.method_id = method_id
        return self

    def __str__(self) -> str:
        """Return the reply code and text for a log line."""
        return f"{self.reply_code.value} {self.reply_text}"


class SoftError(AmqpError):
    """A failure that closes one channel; the connection stays open."""


class HardError(AmqpError):
    """A failure that closes the whole connection."""


class AccessRefused(SoftError):
    """403: the user or the name may not do this."""

    reply_code = ReplyCode.ACCESS_REFUSED


class NotFound(SoftError):
    """404: the queue, exchange or consumer does not exist."""

    reply_code = ReplyCode.NOT_FOUND


class ResourceLocked(SoftError):
    """405: the queue belongs to another connection."""

    reply_code = ReplyCode.RESOURCE_LOCKED


class PreconditionFailed(SoftError):
    """406: an argument or the present state forbids the method."""

    reply_code = ReplyCode.PRECONDITION_FAILED


class ConnectionForced(HardError):
    """320: an operator or the stop of the server closes the connection."""

    reply_code = ReplyCode.CONNECTION_FORCED


class FrameError(HardError):
    """501: the octets are not a frame, or not a method that can be decoded."""

    reply_code = ReplyCode.FRAME_ERROR


class FieldSyntaxError(HardError):
    """502: the bytes inside a frame, or a value to be encoded, break the field grammar.

    Its code name is SYNTAX_ERROR; the class is named otherwise because Python has a SyntaxError.
    """

    reply_code = ReplyCode.SYNTAX_ERROR


class CommandInvalid(HardError):
    """503: the present state does not allow the method."""

    reply_code = ReplyCode.COMMAND_INVALID


class ChannelError(HardError):
    """504: the channel is not open, or is opened twice."""

    reply_code = ReplyCode.CHANNEL_ERROR


class UnexpectedFrame(HardError):
    """505: a frame that may not come here, such as a body without a publish."""

    reply_code = ReplyCode.UNEXPECTED_FRAME


class ResourceError(HardError):
    """506: the server lacks the resources for the method."""

    reply_code = ReplyCode.RESOURCE_ERROR


class NotAllowed(HardError):
    """530: not allowed, for example a bad tune-ok or an unknown virtual host."""

    reply_code = ReplyCode.NOT_ALLOWED


class NotImplementedAmqp(HardError):
    """540: the server does not implement the method.

    Its code name is NOT_IMPLEMENTED; Python has a NotImplementedError already.
    """

    reply_code = ReplyCode.NOT_IMPLEMENTED


class InternalError(HardError):
    """541: a fault of the server itself."""

    reply_code = ReplyCode.INTERNAL_ERROR


def _truncate(text: str) -> str:
    """Cut text to 255 bytes of UTF-8 that end in `...`, without splitting a character."""
    # Names from the wire may contain escaped bytes. Other lone surrogates cannot be encoded:
    # replace them, because a second error would hide the first one.
    try:
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "replace")
    if len(encoded) > REPLY_TEXT_BYTES_MAX:
        end = REPLY_TEXT_BYTES_MAX - len(_CUT_MARK)
        for back in range(_CHARACTER_BYTES_MAX):
            if encoded[end - back] & _CONTINUATION_MASK != _CONTINUATION_BITS:
                end -= back
                break
        encoded = encoded[:end] + _CUT_MARK
    return encoded.decode("utf-8", "surrogateescape")
