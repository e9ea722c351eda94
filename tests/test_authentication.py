"""Which users may log in, and from which addresses."""

import asyncio
from pathlib import Path

import pytest

from amqp_server.access.access_control import AccessControl
from amqp_server.access.logins import Logins
from amqp_server.access.passwords import NO_PASSWORD, PasswordHash
from amqp_server.access.user import User
from amqp_server.base.background_tasks import BackgroundTasks
from amqp_server.base.config import ServerConfig
from amqp_server.broker.counters.broker_counters import Churn
from amqp_server.connections.authentication import Authentication, PeerAuthenticator, ProxyWarning
from amqp_server.connections.connection_limits import ConnectionLimits
from metadata.store import MetadataStore

HERE = ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = ["10.0.0.1", "192.168.1.7", "2001:db8::1", "fe80::1%eth0", "::ffff:10.0.0.1", "?"]


async def logs_in(user: str, password: bytes, peer: str, *, from_anywhere: bool = False) -> bool:
    """Return whether a login is accepted where there is `guest` and one user without password."""
    config = ServerConfig(guest_from_anywhere=from_anywhere)
    access = AccessControl(
        MetadataStore(Path("unused")), {}, BackgroundTasks().spawn, lambda _: asyncio.sleep(0)
    )
    access.users["guest"] = User("guest", PasswordHash.quick(b"guest"))
    access.users["certificate"] = User("certificate", NO_PASSWORD)
    logins = Logins(access.users)
    try:
        rules = Authentication(
            config, access, logins, {}, ConnectionLimits({}, access.users, Churn())
        )
        accepted = PeerAuthenticator(peer, rules).login(user, password)
        return accepted if isinstance(accepted, bool) else await accepted
    finally:
        logins.close()


@pytest.mark.parametrize("peer", HERE)
async def test_guest_may_come_from_this_machine(peer: str) -> None:
    assert await logs_in("guest", b"guest", peer)


@pytest.mark.parametrize("peer", ELSEWHERE)
async def test_guest_may_come_from_elsewhere_only_when_that_is_asked_for(peer: str) -> None:
    assert not await logs_in("guest", b"guest", peer)
    assert await logs_in("guest", b"guest", peer, from_anywhere=True)


@pytest.mark.parametrize(
    ("user", "password"),
    [("guest", b""), ("guest", b"x"), ("", b"guest"), ("certificate", b""), ("certificate", b"x")],
)
async def test_a_wrong_login_is_refused_from_every_address(user: str, password: bytes) -> None:
    for peer in ("127.0.0.1", "10.0.0.1"):
        assert not await logs_in(user, password, peer, from_anywhere=True)


@pytest.mark.parametrize(
    ("user", "peer", "reason"),
    [
        ("bob", "127.0.0.1", "user='bob' peer=127.0.0.1 reason=unknown user or wrong password"),
        ("guest", "10.0.0.1", "user='guest' peer=10.0.0.1 reason=only from this machine"),
        ("b\n" + "o" * 1000, "::1", f"user='b\\n{'o' * 62}' peer=::1 reason=unknown user"),
    ],
)
async def test_the_log_names_the_refused_user_and_the_reason(
    caplog: pytest.LogCaptureFixture, user: str, peer: str, reason: str
) -> None:
    await logs_in(user, b"guest", peer)
    assert caplog.messages[0].startswith(f"login refused {reason}")


@pytest.mark.parametrize("peer", HERE)
def test_the_first_login_from_this_machine_logs_a_warning_about_proxies(
    caplog: pytest.LogCaptureFixture, peer: str
) -> None:
    warning = ProxyWarning(from_anywhere=False)
    for _ in range(3):
        warning.guest_logged_in(peer)
    (line,) = caplog.messages
    assert line.startswith(f"guest logged in from this machine peer={peer} ")
    assert "proxy" in line


def test_no_warning_is_logged_where_guest_may_log_in_from_anywhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ProxyWarning(from_anywhere=True).guest_logged_in("127.0.0.1")
    ProxyWarning(from_anywhere=False).guest_logged_in("10.0.0.1")
    assert not caplog.messages
