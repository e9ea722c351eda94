"""A start with TLS: files that cannot be used stop it in one line, the rest is a warning."""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.tls.certificates import DAY, Authority, Pair, common_name
from tests.tls.conftest import shake_hands, tls_address

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    """Return a certificate of this machine."""
    return authority.server_pair()


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[list[RunningServer]]:
    """Hold the server that a test starts in vain."""
    servers: list[RunningServer] = []
    yield servers
    for server in servers:
        server.kill()


def refusal(tmp_path: Path, *options: str, code: int = 2) -> str:
    """Return the one line with which a start is refused."""
    with RunningServer(tmp_path / "data", *options) as server:
        server.begin()
        assert server.wait() == code
        (line,) = server.messages
        assert not (tmp_path / "data").exists(), "the directory was touched"
        return line.removeprefix("amqp-server: error: ").strip()


def test_a_file_that_is_missing(tmp_path: Path, pair: Pair) -> None:
    pair.key.unlink()
    assert refusal(tmp_path, *pair.options) == (
        f"cannot read the TLS key {pair.key}: No such file or directory"
    )


def test_a_certificate_that_is_none(tmp_path: Path, pair: Pair) -> None:
    pair.certificate.write_text("not a certificate")
    assert refusal(tmp_path, *pair.options) == (
        f"the TLS certificate {pair.certificate} is not in PEM format"
    )


def test_a_key_that_is_none(tmp_path: Path, pair: Pair) -> None:
    pair.key.write_text("not a key")
    line = refusal(tmp_path, *pair.options)
    assert line.startswith(f"cannot use the TLS certificate {pair.certificate} with the key")


def test_a_key_of_another_certificate(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    other = authority.server_pair(file="other")
    options = Pair(pair.certificate, other.key).options
    assert refusal(tmp_path, *options) == (
        f"the TLS key {other.key} does not belong to the certificate {pair.certificate}"
    )


def test_authorities_that_are_none(tmp_path: Path, pair: Pair) -> None:
    path = tmp_path / "authorities.pem"
    path.write_text("none")
    options = ("--tls-ca", str(path), "--tls-verify", "peer")
    assert refusal(tmp_path, *pair.options, *options) == (
        f"the TLS authorities {path} are not in PEM format"
    )


def test_ciphers_that_select_nothing(tmp_path: Path, pair: Pair) -> None:
    assert refusal(tmp_path, *pair.options, "--tls-ciphers", "NOSUCH") == (
        "tls-ciphers: 'NOSUCH' selects no cipher suite"
    )


def test_a_port_that_is_taken(tmp_path: Path, pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refusal(tmp_path, *pair.options[:-1], port, code=75) == (
            f"cannot listen on 127.0.0.1:{port}: Address already in use"
        )


def encrypt(pair: Pair, password: bytes) -> None:
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )


def test_an_encrypted_key_without_a_password_asks_nobody(tmp_path: Path, pair: Pair) -> None:
    encrypt(pair, b"secret")
    assert refusal(tmp_path, *pair.options) == (
        f"the TLS key {pair.key} is encrypted: name a file with its password by "
        "tls-key-password-file"
    )


def test_an_encrypted_key_with_a_wrong_password(tmp_path: Path, pair: Pair) -> None:
    encrypt(pair, b"secret")
    word = tmp_path / "word"
    word.write_text("wrong\n")
    assert refusal(tmp_path, *pair.options, "--tls-key-password-file", str(word)) == (
        f"cannot use the TLS key {pair.key}: it is not in PEM format, or the password in {word} "
        "is wrong"
    )


def test_an_encrypted_key_with_its_password(
    tmp_path: Path, authority: Authority, pair: Pair, start_server: StartServer
) -> None:
    encrypt(pair, b"secret")
    word = tmp_path / "word"
    word.write_text("secret\n")
    server = start_server(*pair.options, "--tls-key-password-file", str(word))
    shake_hands(tls_address(server), authority.trust()).close()


def test_one_file_with_certificate_and_key(
    authority: Authority, pair: Pair, start_server: StartServer
) -> None:
    with pair.certificate.open("ab") as file:
        file.write(pair.key.read_bytes())
    server = start_server("--tls-certificate", str(pair.certificate), "--tls-port", "0")
    shake_hands(tls_address(server), authority.trust()).close()


@pytest.mark.parametrize(
    ("begins", "ends", "warning"),
    [(-2 * DAY, -HOUR, "TLS certificate has expired file="), (HOUR, DAY, "is not valid yet file=")],
)
def test_a_certificate_that_is_not_valid_now_is_a_warning(
    authority: Authority,
    start_server: StartServer,
    begins: datetime.timedelta,
    ends: datetime.timedelta,
    warning: str,
) -> None:
    pair = authority.client_pair(common_name("localhost"), begins=begins, ends=ends)
    server = start_server(*pair.options)
    assert "level=warning" in server.wait_for_message(warning)


def test_a_server_for_tls_only(authority: Authority, pair: Pair, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", *pair.options, "--tls-only") as server:
        server.begin()
        shake_hands(tls_address(server), authority.trust()).close()
        assert server.terminate() == 0
        assert not any(line.startswith("listening on ") for line in server.messages)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_plain_port_that_others_can_reach_is_a_warning(
    start_server: StartServer, host: str
) -> None:
    server = start_server("--host", host)
    assert server.terminate() == 0
    warned = [line for line in server.messages if "listening without TLS host=" in line]
    assert len(warned) == (host == "0.0.0.0")


def test_log_lines_of_both_addresses_are_json(pair: Pair, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", *pair.options, "--log-format", "json") as server:
        server.begin()
        server.wait_for_message("listening with TLS")
        assert server.terminate() == 0
        events = {event["event"]: event["fields"] for event in map(json.loads, server.messages)}
    assert isinstance(events["listening"]["port"], int)
    assert isinstance(events["listening with TLS"]["port"], int)
