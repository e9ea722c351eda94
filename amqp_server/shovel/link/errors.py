"""Why a link cannot be made, or has ended."""

from __future__ import annotations


class UriError(ValueError):
    """A text is not the address of a broker."""


class LinkError(Exception):
    """A link to a broker does not work."""


class CannotConnectError(LinkError):
    """No connection was made: no answer, no TLS, or no such host."""


class LinkClosed(LinkError):  # noqa: N818 - it is what happened
    """A connection or a channel has ended before its owner closed it.

    Attributes:
        code: Reply code of the peer, as in `ReplyCode`; 0 if it gave none.
        text: Reply text of the peer, or what was noticed.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}" if code else text)
        self.code = code
        self.text = text


class ConsumerCancelled(LinkClosed):
    """The broker has cancelled a consumer: its queue was deleted, for example."""
