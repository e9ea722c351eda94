"""Rights of a shovel that a user without the tag administrator has set.

The process of the shovels runs on the server's machine and with the server's files. A user who may
set parameters must not get more than the user has: not the login as `guest`, which this machine
alone is allowed, and no word about files. So an address of this server without a login means the
owner of the shovel; any other address has to name a user.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.shovel.definition import ShovelDefinition, ShovelError

if TYPE_CHECKING:
    from amqp_server.shovel.link.amqp_uri import AmqpUri

INTERNAL: Final = "internal"
"""Back end of the server's own users."""
GUEST: Final = "guest"
_OWNER: Final = "owner:"
_PLAIN: Final = "PLAIN"


class Owner(Protocol):
    """The user who has set the parameter of a shovel."""

    @property
    def user(self) -> str:
        """Name of the user."""

    @property
    def backend(self) -> str:
        """Name of the back end that let the user in."""


def check_owned(definition: ShovelDefinition, owner: Owner) -> None:
    """Check that a user who is no administrator may have a shovel run.

    Raises:
        ShovelError: The user may not; it names each address and why.
    """
    faults: list[str] = []
    for prefix, side in (("src", definition.source), ("dest", definition.destination)):
        for uri in side.uris:
            fault = _fault(uri, owner, is_ours=side.is_ours(uri))
            if fault:
                faults.append(f"{prefix}-uri {uri.without_login}: {fault}")
    if faults:
        raise ShovelError(faults)


def _fault(uri: AmqpUri, owner: Owner, *, is_ours: bool) -> str:
    if is_ours:
        if owner.backend == INTERNAL:
            return ""
        return (
            f"user '{owner.user}' logs in by '{owner.backend}', and the shovel cannot do that for "
            "the user: name this server's address with a user and a password"
        )
    if uri.cacertfile or uri.certfile or uri.keyfile:
        return "only a shovel that an administrator sets may name files of the server's machine"
    if uri.user is None and uri.mechanism == _PLAIN:
        return (
            "it names no user, which means guest: only a shovel that an administrator sets may "
            "log in so; write a user and a password, or amqp:// for this server"
        )
    return ""


def why_refused_from(uri: AmqpUri, source: str) -> str:
    """Return why such a shovel must not log in over a connection; empty if it may.

    A broker lets `guest` in from its own machine alone. For whom the process of the shovels
    connects, it cannot know.

    Args:
        uri: Address to which the connection leads.
        source: IP address of this end of it, which the peer takes for where the client is.
    """
    if uri.user != GUEST:
        return ""
    address = ipaddress.ip_address(source.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    if not (mapped or address).is_loopback:
        return ""
    return (
        "guest logs in from the machine of the broker alone, and a shovel that a user who is no "
        "administrator has set does not count as that"
    )


def login_name(user: str) -> str:
    """Return the name with which the process of the shovels logs in for an owner."""
    return _OWNER + user


def owner_in(login: str) -> str | None:
    """Return the owner that such a name means; None if it is none."""
    return login.removeprefix(_OWNER) if login.startswith(_OWNER) else None
