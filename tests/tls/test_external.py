"""EXTERNAL: a client logs in as the user whom its certificate names."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from pamqp.commands import Connection

from amqp_server.access.permissions import Permissions
from amqp_server.access.user import User
from tests.access.backends.auth_server import AuthServer
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect
from tests.tls.certificates import Authority, Pair, common_name
from tests.tls.conftest import StartTls, TlsServer

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
    "For details see the broker logfile."
)
ORGANIZATION = (NameOID.ORGANIZATION_NAME, "ops")


def start(authority: Authority, start_tls: StartTls, *users: str, **settings: Any) -> TlsServer:  # noqa: ANN401
    """Start a server that asks for certificates, with these users, who have no passwords."""
    server = start_tls(
        **authority.server_pair().settings,
        tls_ca=str(authority.path),
        tls_verify="peer",
        **settings,
    )
    access = server.server.access

    async def add_users() -> None:
        for name in users:
            await access.add_user(User(name))
            await access.set_permissions("/", name, Permissions(".*", ".*", ".*"))

    server.run(add_users)
    return server


def mechanisms(client: AmqpClient) -> bytes:
    """Return what the server offers to a client that has only connected."""
    client.send_raw(PROTOCOL_HEADER)
    return str(client.expect(Connection.Start, 0).mechanisms).encode()


def log_in(server: TlsServer, authority: Authority, pair: Pair | None, response: str = "") -> str:
    """Log in by a certificate; return the user, or the text of the refusal."""
    with AmqpClient(server.tls_address, over=server.shake_hands(authority.trust(pair))) as client:
        client.start(mechanism="EXTERNAL", response=response)
        _, answer = client.receive()
        if isinstance(answer, Connection.Close):
            assert answer.reply_code == 403
            return str(answer.reply_text)
        assert isinstance(answer, Connection.Tune)
        client.send(Connection.TuneOk(answer.channel_max, answer.frame_max, 0), 0)
        client.call(Connection.Open(virtual_host="/"), Connection.OpenOk, 0)
        (user,) = server.call(lambda: [each.user for each in server.connections])
        client.close()
        return user


def test_it_is_offered_with_tls_and_verification_only(
    authority: Authority, start_tls: StartTls
) -> None:
    server = start(authority, start_tls)
    with AmqpClient(server.address) as plain:
        assert mechanisms(plain) == b"PLAIN AMQPLAIN"
        plain.socket.close()
    with AmqpClient(server.tls_address, over=server.shake_hands(authority.trust())) as secret:
        assert mechanisms(secret) == b"PLAIN AMQPLAIN EXTERNAL"


def test_without_verification_it_is_refused(authority: Authority, start_tls: StartTls) -> None:
    server = start_tls(**authority.server_pair().settings)
    with AmqpClient(server.tls_address, over=server.shake_hands(authority.trust())) as client:
        client.start(mechanism="EXTERNAL", response="guest")
        close = client.expect(Connection.Close, 0)
    assert close.reply_code == 503
    assert "unknown authentication mechanism 'EXTERNAL'" in close.reply_text


def test_the_subject_is_the_user(authority: Authority, start_tls: StartTls) -> None:
    server = start(authority, start_tls, "CN=certuser,O=ops,C=SE")
    pair = authority.client_pair(
        (NameOID.COUNTRY_NAME, "SE"), ORGANIZATION, common_name("certuser")
    )
    assert log_in(server, authority, pair) == "CN=certuser,O=ops,C=SE"


def test_the_response_cannot_name_another_user(authority: Authority, start_tls: StartTls) -> None:
    server = start(authority, start_tls, "CN=certuser")
    pair = authority.client_pair(common_name("certuser"))
    assert log_in(server, authority, pair, response="guest") == "CN=certuser"
    assert log_in(server, authority, pair, response="\0guest\0guest") == "CN=certuser"


@pytest.mark.parametrize("has_certificate", [True, False])
def test_a_user_who_does_not_exist_is_refused(
    authority: Authority,
    start_tls: StartTls,
    caplog: pytest.LogCaptureFixture,
    has_certificate: bool,
) -> None:
    server = start(authority, start_tls, "CN=certuser")
    pair = authority.client_pair(common_name("stranger")) if has_certificate else None
    assert log_in(server, authority, pair, response="guest") == REFUSED
    reason = "names no user of this server" if has_certificate else "no certificate, or no name"
    assert reason in caplog.text


def test_the_common_name_is_the_user(authority: Authority, start_tls: StartTls) -> None:
    server = start(authority, start_tls, "alice", "alice,bob", ssl_cert_login_from="common_name")
    one = authority.client_pair(ORGANIZATION, common_name("alice"))
    assert log_in(server, authority, one) == "alice"
    two = authority.client_pair(common_name("alice"), common_name("bob"))
    assert log_in(server, authority, two) == "alice,bob"
    none = authority.client_pair(ORGANIZATION)
    assert log_in(server, authority, none) == REFUSED


@pytest.mark.parametrize("name", ["alice\0.attacker", "alice\n", "alice\x7f", "\x01alice"])
def test_a_name_with_a_control_character_is_nobodys(
    authority: Authority, start_tls: StartTls, name: str
) -> None:
    server = start(
        authority, start_tls, "alice", name.replace("\0", ""), ssl_cert_login_from="common_name"
    )
    assert log_in(server, authority, authority.client_pair(common_name(name))) == REFUSED


def test_a_control_character_in_a_distinguished_name_is_escaped(
    authority: Authority, start_tls: StartTls
) -> None:
    server = start(authority, start_tls, "CN=alice", r"CN=alice\00.attacker")
    pair = authority.client_pair(common_name("alice\0.attacker"))
    assert log_in(server, authority, pair) == r"CN=alice\00.attacker"


@pytest.mark.parametrize(
    ("kind", "index", "user"),
    [
        ("dns", 0, "one.example.org"),
        ("dns", 1, "two.example.org"),
        ("dns", 2, None),
        ("email", 0, "ops@example.org"),
        ("uri", 0, "spiffe://example.org/ops"),
        ("ip", 0, "192.0.2.7"),
        ("ip", 1, "2001:db8::7"),
    ],
)
def test_an_alternative_name_is_the_user(
    authority: Authority, start_tls: StartTls, kind: str, index: int, user: str | None
) -> None:
    server = start(
        authority,
        start_tls,
        *([user] if user else []),
        ssl_cert_login_from="subject_alternative_name",
        ssl_cert_login_san_type=kind,
        ssl_cert_login_san_index=index,
    )
    pair = authority.client_pair(
        common_name("someone"),
        alternative=(
            x509.DNSName("one.example.org"),
            x509.RFC822Name("ops@example.org"),
            x509.IPAddress(ipaddress.ip_address("192.0.2.7")),
            x509.DNSName("two.example.org"),
            x509.UniformResourceIdentifier("spiffe://example.org/ops"),
            x509.IPAddress(ipaddress.ip_address("2001:db8::7")),
        ),
    )
    assert log_in(server, authority, pair) == (user or REFUSED)


def test_guest_may_log_in_by_certificate_from_this_machine(
    authority: Authority, start_tls: StartTls
) -> None:
    server = start(authority, start_tls, ssl_cert_login_from="common_name")
    assert log_in(server, authority, authority.client_pair(common_name("guest"))) == "guest"


def test_a_password_still_works_beside_it(authority: Authority, start_tls: StartTls) -> None:
    server = start(authority, start_tls)
    with connect(server.tls_address, over=server.shake_hands(authority.trust())) as client:
        client.open_channel()
        client.close()


def test_a_user_whom_another_back_end_knows_is_asked_for_without_a_password(
    authority: Authority, start_tls: StartTls
) -> None:
    answers = {"known": "allow", "unknown": "deny"}
    with AuthServer(lambda path, f: answers[f["username"]] if path == "/user" else "allow") as auth:
        where = {"ssl_cert_login_from": "common_name"}
        server = start(authority, start_tls, "own", **where, **auth.settings)
        for user in ("own", "known"):
            pair = authority.client_pair(common_name(user))
            assert log_in(server, authority, pair) == user
        pair = authority.client_pair(common_name("unknown"))
        assert log_in(server, authority, pair) == REFUSED
        assert auth.questions("/user") == [{"username": "known"}, {"username": "unknown"}]
