"""Several certificates: each client gets the one for the host that it names (SNI)."""

from __future__ import annotations

import ssl

import pytest

from amqp_server.base.config import ServerConfig
from amqp_server.connections.tls.configured import amqp_tls
from amqp_server.connections.tls.contexts import load_context
from tests.tls.certificates import Authority
from tests.tls.conftest import StartTls, TlsServer


@pytest.fixture
def server(authority: Authority, start_tls: StartTls) -> TlsServer:
    """Start a server with three certificates."""
    pairs = [
        authority.server_pair(file="first"),
        authority.server_pair("mq.example.org", file="second"),
        authority.server_pair("*.example.org", "other.test", file="third"),
    ]
    return start_tls(
        tls_certificate=",".join(str(pair.certificate) for pair in pairs),
        tls_key=",".join(str(pair.key) for pair in pairs),
        tls_port=0,
    )


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("mq.example.org", "mq.example.org"),
        ("MQ.Example.ORG", "mq.example.org"),
        ("a.example.org", "*.example.org"),
        ("other.test", "*.example.org"),
    ],
)
def test_a_client_gets_the_certificate_of_the_host(
    authority: Authority, server: TlsServer, host: str, name: str
) -> None:
    with server.shake_hands(authority.trust(), host) as client:
        certificate = client.getpeercert()
    assert certificate is not None
    assert ("DNS", name) in certificate["subjectAltName"]


@pytest.mark.parametrize("host", ["a.b.example.org", "example.org", "nobody.test"])
def test_a_host_without_a_certificate_gets_the_first(
    authority: Authority, server: TlsServer, host: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        server.shake_hands(authority.trust(), host)


def test_a_client_that_names_no_host_gets_the_first(
    authority: Authority, server: TlsServer
) -> None:
    trust = authority.trust()
    trust.check_hostname = False
    with server.shake_hands(trust, None) as client:
        certificate = client.getpeercert()
    assert certificate is not None
    assert ("DNS", "localhost") in certificate["subjectAltName"]


def test_no_protocol_is_negotiated_and_no_session_resumed(
    authority: Authority, server: TlsServer
) -> None:
    trust = authority.trust()
    trust.set_alpn_protocols(["http/1.1", "amqp"])
    with server.connect(trust) as client:
        client.open_channel()
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.selected_alpn_protocol() is None
        session = client.socket.session
        assert session is not None
        assert not session.has_ticket


def test_versions_are_those_of_the_settings(authority: Authority) -> None:
    settings = authority.server_pair().settings
    bounds = {
        versions: load_context(amqp_tls(ServerConfig(**settings, tls_versions=versions)))  # type: ignore[arg-type]
        for versions in ("1.2", "1.3", "1.3,1.2")
    }
    shown = {
        versions: (context.minimum_version.name, context.maximum_version.name)
        for versions, context in bounds.items()
    }
    assert shown == {
        "1.2": ("TLSv1_2", "TLSv1_2"),
        "1.3": ("TLSv1_3", "TLSv1_3"),
        "1.3,1.2": ("TLSv1_2", "TLSv1_3"),
    }
