"""The actor of an event: a client's user, a command's user of the system, or the server."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple


class Actor(NamedTuple):
    """The user that did something, or the server.

    Attributes:
        user: User of a client; `os:<uid>/<name>` for a command; empty for the server itself.
        peer: Address of a client, `host:port`; empty for commands and for the server.
        connection: Name that the client gave its connection; empty if it gave none.
    """

    user: str
    peer: str = ""
    connection: str = ""


SERVER: Final = Actor("")
"""The server itself, for example when a queue's last consumer ends."""

acting: Final[ContextVar[Actor]] = ContextVar("acting", default=SERVER)
"""Actor for whom the present task acts; the handler of a command's or program's request sets it.

Tasks that it starts inherit it.
"""


def os_actor(uid: int, name: str) -> Actor:
    """Return a user of the operating system as an actor.

    Args:
        uid: User id.
        name: User name; empty if the system knows none.
    """
    return Actor(f"os:{uid}/{name}")
