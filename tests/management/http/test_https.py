"""HTTPS: several certificates, certificates of clients, and new files without a restart."""

from __future__ import annotations

import signal
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer, StartManagementServer
from tests.tls.certificates import Authority, common_name

_REQUEST = b"GET /api/version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return who signs."""
    return Authority(tmp_path)


def port_of(server: ManagementServer) -> int:
    """Return the port with TLS."""
    line = server.server.wait_for_message("management server started")
    url = next(word for word in line.split() if word.startswith("https://"))
    return int(url.rstrip("'").rpartition(":")[2])


def shake_hands(port: int, trust: ssl.SSLContext, host: str | None = "localhost") -> ssl.SSLSocket:
    """Return an open connection."""
    plain = socket.create_connection(("127.0.0.1", port), HANG_SECONDS)
    try:
        return trust.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def ask(client: ssl.SSLSocket) -> bytes:
    """Send a request; return the status line, or nothing if the server ends the connection.

    With TLS 1.3 a client learns only afterwards that its certificate was refused.
    """
    with client, suppress(OSError):
        client.sendall(_REQUEST)
        return client.makefile("rb").read().partition(b"\r\n")[0]
    return b""


def serial_of(client: ssl.SSLSocket) -> str:
    """Return what tells certificates of a server apart; closes the connection."""
    with client:
        certificate = client.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_client_gets_the_certificate_of_the_host_that_it_names(
    authority: Authority, start_management_server: StartManagementServer
) -> None:
    pairs = [authority.server_pair(file="a"), authority.server_pair("*.example.org", file="b")]
    server = start_management_server(
        "--management-tls-port=-1",
        f"--management-tls-certificate={','.join(str(pair.certificate) for pair in pairs)}",
        f"--management-tls-key={','.join(str(pair.key) for pair in pairs)}",
    )
    port, trust = port_of(server), authority.trust()
    nameless = authority.trust()
    nameless.check_hostname = False

    first, second = (
        serial_of(shake_hands(port, trust, host)) for host in ("localhost", "mq.example.org")
    )
    assert first != second
    assert serial_of(shake_hands(port, nameless, None)) == first
    client = shake_hands(port, trust, "mq.example.org")
    assert ask(client) == b"HTTP/1.1 200 OK"
    trust.set_alpn_protocols(["h2", "http/1.1"])
    with shake_hands(port, trust, "mq.example.org") as chooses:
        assert chooses.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("is_required", [True, False])
def test_certificates_of_clients_are_checked(
    authority: Authority,
    start_management_server: StartManagementServer,
    tmp_path: Path,
    is_required: bool,
) -> None:
    pair = authority.server_pair()
    options = [
        *pair.options,
        "--management-tls-port=-1",
        "--management-tls-verify=peer",
        f"--management-tls-ca={authority.path}",
    ]
    if is_required:
        options.append("--management-tls-fail-if-no-peer-cert")
    server = start_management_server(*options)
    port = port_of(server)
    ours = authority.client_pair(common_name("anybody"), file="ours")
    theirs = Authority(tmp_path, "other").client_pair(common_name("anybody"), file="theirs")

    assert ask(shake_hands(port, authority.trust(ours))) == b"HTTP/1.1 200 OK"
    assert ask(shake_hands(port, authority.trust(theirs))) == b""
    without = ask(shake_hands(port, authority.trust()))
    assert without == (b"" if is_required else b"HTTP/1.1 200 OK")


def test_a_certificate_of_a_client_is_no_login(
    authority: Authority, start_management_server: StartManagementServer
) -> None:
    server = start_management_server(
        *authority.server_pair().options,
        "--management-tls-port=-1",
        "--management-tls-verify=peer",
        f"--management-tls-ca={authority.path}",
    )
    trust = authority.trust(authority.client_pair(common_name("guest")))

    with shake_hands(port_of(server), trust) as client:
        client.sendall(_REQUEST.replace(b"version", b"whoami"))
        assert b" 401 " in client.makefile("rb").readline()


def test_a_signal_takes_new_certificates_and_authorities(
    tmp_path: Path, authority: Authority, start_management_server: StartManagementServer
) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.path.read_bytes())
    pair = authority.server_pair()
    server = start_management_server(
        "--management-tls-port=-1",
        f"--management-tls-certificate={pair.certificate}",
        f"--management-tls-key={pair.key}",
        "--management-tls-verify=peer",
        f"--management-tls-ca={trusted}",
        "--management-tls-fail-if-no-peer-cert",
    )
    port = port_of(server)
    with_old = authority.trust(old.client_pair(common_name("a"), file="a"))
    with_new = authority.trust(new.client_pair(common_name("b"), file="b"))
    open_before = shake_hands(port, with_old)
    before = open_before.getpeercert()

    trusted.write_bytes(new.path.read_bytes())
    authority.server_pair()
    server.server.signal(signal.SIGHUP)
    server.server.wait_for_message("TLS files reloaded")

    assert ask(open_before) == b"HTTP/1.1 200 OK", "open connections live on"
    client = shake_hands(port, with_new)
    assert client.getpeercert() != before
    assert ask(client) == b"HTTP/1.1 200 OK"
    assert ask(shake_hands(port, with_old)) == b""


def test_files_that_cannot_be_used_change_nothing(
    authority: Authority, start_management_server: StartManagementServer
) -> None:
    pair = authority.server_pair()
    server = start_management_server(
        "--management-tls-port=-1",
        f"--management-tls-certificate={pair.certificate}",
        f"--management-tls-key={pair.key}",
    )
    server.server.may_fail = True
    port, trust = port_of(server), authority.trust()
    before = serial_of(shake_hands(port, trust))
    process_id = server.process_id

    pair.key.write_bytes(authority.server_pair(file="other").key.read_bytes())
    server.server.signal(signal.SIGHUP)

    line = server.server.wait_for_message("TLS files not reloaded")
    assert "does not belong to the certificate" in line
    assert serial_of(shake_hands(port, trust)) == before
    assert server.process_id == process_id
