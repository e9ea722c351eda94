"""One request of a user, as handlers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from amqp_server.management.http.answers import not_authorised, not_found
from amqp_server.management.http.bodies import (
    BODY_BYTES_MAX,
    STRANGERS_BODY_BYTES_MAX,
    BodyBudget,
    parse_object,
    read_octets,
)

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

Row = TypeVar("Row")


class Tag(Enum):
    """What a user must be; the value is the reason for those who are not.

    Each of the last three is a management user as well, and an administrator is all of them.
    """

    MANAGEMENT = "Not management user"
    POLICYMAKER = "User not authorised to access object"
    MONITORING = "Not monitor user"
    ADMINISTRATOR = "Not administrator user"


_GRANTED = {
    "management": {Tag.MANAGEMENT},
    "policymaker": {Tag.MANAGEMENT, Tag.POLICYMAKER},
    "monitoring": {Tag.MANAGEMENT, Tag.MONITORING},
    "administrator": set(Tag),
}


@dataclass(frozen=True, slots=True)
class User:
    """A user who has logged in.

    Attributes:
        name: Name.
        tags: Tags, free ones too, in their order.
        vhosts: Virtual hosts in which the user has a permission.
        login: Key of the login for the broker; empty for a user of its own.
    """

    name: str
    tags: tuple[str, ...]
    vhosts: frozenset[str]
    login: str = ""

    def has(self, tag: Tag) -> bool:
        """Return whether the user is this, by one of the tags."""
        return any(tag in _GRANTED.get(each, ()) for each in self.tags)

    @property
    def is_administrator(self) -> bool:
        """Whether the user may see and do everything."""
        return "administrator" in self.tags

    @property
    def is_monitor(self) -> bool:
        """Whether the user sees the node and what belongs to other users."""
        return self.has(Tag.MONITORING)

    def sees_vhost(self, vhost: str) -> bool:
        """Return whether the user sees what is in a virtual host."""
        return self.is_administrator or vhost in self.vhosts

    def demand(self, tag: Tag) -> None:
        """Refuse users who are not this.

        Raises:
            ApiError: 401 with RabbitMQ's reason.
        """
        if not self.has(Tag.MANAGEMENT):
            raise not_authorised(Tag.MANAGEMENT.value)
        if not self.has(tag):
            raise not_authorised(tag.value)

    def demand_vhost(self, vhost: str) -> None:
        """Refuse users without a permission in a virtual host, but administrators.

        Raises:
            ApiError: 401 with RabbitMQ's reason.
        """
        if not self.sees_vhost(vhost):
            raise not_authorised("User not authorised to access virtual host")


NOBODY = User("", (), frozenset())
"""Who asks for something that needs no login."""


@dataclass(slots=True)
class Call:
    """One request.

    Attributes:
        method: `GET`, `PUT`, `POST` or `DELETE`; for HEAD it is `GET`.
        path: Raw path.
        segments: Decoded segments of the path by their names in the route.
        query: Decoded fields of the query.
        headers: Headers; names in any case.
        user: Who asks; `NOBODY` where no login is needed.
        peer_host: Address of the client.
        peer_port: Port of the client.
        request: The request of the HTTP library.
        budget: Memory that the bodies of all requests share.
    """

    method: str
    path: str
    segments: dict[str, str]
    query: dict[str, str]
    headers: Mapping[str, str]
    peer_host: str
    peer_port: int
    request: BaseRequest
    budget: BodyBudget
    user: User = NOBODY
    _octets: bytes | None = field(default=None, repr=False)
    _held_bytes: int = 0

    @property
    def actor(self) -> dict[str, str]:
        """Who acts, as the control socket wants it."""
        actor = {"user": self.user.name, "peer": f"{self.peer_host}:{self.peer_port}"}
        return {**actor, "login": self.user.login} if self.user.login else actor

    async def octets(self) -> bytes:
        """Return the whole body.

        Raises:
            ApiError: It is too long, or came too slowly.
        """
        if self._octets is None:
            bytes_max = STRANGERS_BODY_BYTES_MAX if self.user is NOBODY else BODY_BYTES_MAX
            self._octets = await read_octets(self.request, bytes_max, self._hold)
        return self._octets

    def end(self) -> None:
        """Give back what the body took of the budget: the request is answered."""
        self.budget.release(self._held_bytes)
        self._held_bytes = 0

    def _hold(self, size: int) -> None:
        self.budget.take(size)
        self._held_bytes += size

    async def body(self) -> dict[str, Any]:
        """Return the body, a JSON object whatever its content type is; empty is an empty object.

        Raises:
            ApiError: It is no JSON object, is too long, or came too slowly.
        """
        return parse_object(await self.octets())

    def flag(self, name: str) -> bool:
        """Return whether a field of the query is `true`."""
        return self.query.get(name) == "true"


def found(row: Row | None) -> Row:
    """Return an object that was looked up.

    Raises:
        ApiError: It is None: 404.
    """
    if row is None:
        raise not_found()
    return row
