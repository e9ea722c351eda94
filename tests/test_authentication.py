"""Which users may log in, and from which addresses."""

import pytest

from amqp_server.authentication import ProxyWarning, may_login

HERE = ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = ["10.0.0.1", "192.168.1.7", "2001:db8::1", "fe80::1%eth0", "::ffff:10.0.0.1", "?"]


@pytest.mark.parametrize("peer", HERE)
def test_guest_may_come_from_this_machine(peer: str) -> None:
    assert may_login("guest", b"guest", peer)


@pytest.mark.parametrize("peer", ELSEWHERE)
def test_guest_may_come_from_elsewhere_only_when_that_is_asked_for(peer: str) -> None:
    assert not may_login("guest", b"guest", peer)
    assert may_login("guest", b"guest", peer, from_anywhere=True)


@pytest.mark.parametrize(("user", "password"), [("guest", b""), ("guest", b"x"), ("", b"guest")])
def test_a_wrong_login_is_refused_from_every_address(user: str, password: bytes) -> None:
    for peer in HERE + ELSEWHERE:
        assert not may_login(user, password, peer, from_anywhere=True)


@pytest.mark.parametrize(
    ("user", "peer", "reason"),
    [
        ("bob", "127.0.0.1", "user='bob' peer=127.0.0.1 reason=unknown user or wrong password"),
        ("guest", "10.0.0.1", "user='guest' peer=10.0.0.1 reason=only from this machine"),
        ("b\n" + "o" * 1000, "::1", f"user='b\\n{'o' * 62}' peer=::1 reason=unknown user"),
    ],
)
def test_the_log_names_the_refused_user_and_the_reason(
    caplog: pytest.LogCaptureFixture, user: str, peer: str, reason: str
) -> None:
    may_login(user, b"guest", peer)
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
