"""A shovel that no administrator has set may do what its owner may do, and nothing more."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from amqp_server.shovel.definition import ShovelError, parse_shovel
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.owner import check_owned, login_name, owner_in, why_refused_from

NAMES_NO_USER = "it names no user, which means guest"
NAMES_FILES = "only a shovel that an administrator sets may name files"


class Owner(NamedTuple):
    user: str
    backend: str


ANN = Owner("ann", "internal")


def shovel(source: str = "amqp://", destination: str = "amqp://") -> dict[str, Any]:
    return {"src-uri": source, "src-queue": "from", "dest-uri": destination, "dest-queue": "to"}


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("amqp://127.0.0.1", NAMES_NO_USER),
        ("amqp://localhost:5672/%2F", NAMES_NO_USER),
        ("amqp://[::1]", NAMES_NO_USER),
        ("amqp://other-host", NAMES_NO_USER),
        ("amqps://u:p@other-host?cacertfile=/etc/shadow", NAMES_FILES),
        ("amqps://other-host?certfile=a.pem&auth_mechanism=external", NAMES_FILES),
        ("amqps://u:p@other-host?keyfile=/etc/key.pem", NAMES_FILES),
    ],
)
def test_addresses_that_use_what_is_the_servers_are_refused(uri: str, reason: str) -> None:
    for value in (shovel(uri), shovel(destination=uri), shovel(destination=["amqp://", uri])):  # type: ignore[arg-type]
        definition = parse_shovel("s", value)
        with pytest.raises(ShovelError, match=reason):
            check_owned(definition, ANN)


def test_addresses_of_this_server_and_those_with_a_login_are_taken() -> None:
    for uri in ("amqp://", "amqp:///team", "amqp://u:p@127.0.0.1", "amqps://u:p@other-host"):
        check_owned(parse_shovel("s", shovel(uri)), ANN)


def test_whom_another_back_end_lets_in_needs_a_login() -> None:
    """The name alone may be that of one of the server's own users."""
    with pytest.raises(ShovelError, match="user 'ann' logs in by 'oauth2', and the shovel cannot"):
        check_owned(parse_shovel("s", shovel()), Owner("ann", "oauth2"))


@pytest.mark.parametrize("source", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_guest_does_not_come_from_this_machine(source: str) -> None:
    guest = AmqpUri.parse("amqp://guest:guest@localhost")
    assert "does not count as that" in why_refused_from(guest, source)
    assert why_refused_from(AmqpUri.parse("amqp://ann:ann@localhost"), source) == ""
    assert why_refused_from(guest, "10.0.0.7") == ""


def test_an_owner_has_a_name_of_its_own_at_the_listener() -> None:
    assert owner_in(login_name("none")) == "none"
    assert owner_in("none") is None
