"""New certificates and authorities in a running server: open connections live on."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from pathlib import Path

import pytest

from amqp_server.testing.clock import TurnedClock
from amqp_server.tls.reloading import CHECK_SECONDS
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.tls.certificates import Authority, common_name
from tests.tls.conftest import StartTls, TlsServer, shake_hands, tls_address

CONNECTIONS = 20


def serial_of(connection: ssl.SSLSocket) -> str:
    """Return what tells certificates of a server apart; closes the connection."""
    with connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_signal_takes_a_new_certificate_while_clients_work(
    authority: Authority, start_server: StartServer
) -> None:
    server = start_server(*authority.server_pair().options)
    address, trust = tls_address(server), authority.trust()
    clients = [connect(address, over=shake_hands(address, trust)) for _ in range(CONNECTIONS)]
    before = serial_of(shake_hands(address, trust))

    authority.server_pair()
    server.signal(signal.SIGHUP)
    server.wait_for_message("TLS files reloaded")

    assert serial_of(shake_hands(address, trust)) != before
    for client in clients:
        with client:
            client.open_channel(confirms=True)
            client.declare("q")
            client.publish(b"still here", "q")
            client.expect_confirmed()
            client.close()


def test_files_that_cannot_be_used_change_nothing(
    authority: Authority, start_server: StartServer
) -> None:
    pair = authority.server_pair()
    server = start_server(*pair.options)
    server.may_fail = True
    address, trust = tls_address(server), authority.trust()
    before = serial_of(shake_hands(address, trust))

    pair.key.write_bytes(authority.server_pair(file="other").key.read_bytes())
    server.signal(signal.SIGHUP)

    line = server.wait_for_message("TLS files not reloaded")
    assert "does not belong to the certificate" in line
    assert serial_of(shake_hands(address, trust)) == before


def test_changed_files_are_found_by_the_clock(
    authority: Authority, start_tls: StartTls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = TurnedClock()
    pair = authority.server_pair()
    server = start_tls(clock=clock, **pair.settings)
    trust = authority.trust()
    before = serial_of(server.shake_hands(trust))

    clock.advance(seconds=2 * CHECK_SECONDS)
    assert "TLS files" not in caplog.text, "nothing has changed"

    authority.server_pair()
    # However coarse the times of the file system are.
    os.utime(pair.certificate, (1, 1))
    clock.advance(seconds=CHECK_SECONDS + 1)
    server.wait_until(lambda: "TLS files reloaded" in caplog.text)

    assert serial_of(server.shake_hands(trust)) != before


def reload(server: TlsServer) -> bool:
    """Reload as the signal does."""
    context = server.running.listeners.context
    assert context is not None
    return server.run(context.reload)


def test_a_removed_authority_signs_for_nobody_any_more(
    tmp_path: Path, authority: Authority, start_tls: StartTls
) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.path.read_bytes() + new.path.read_bytes())
    server = start_tls(
        **authority.server_pair().settings,
        tls_ca=str(trusted),
        tls_verify="peer",
        tls_fail_if_no_peer_cert=True,
    )
    with_old = authority.trust(old.client_pair(common_name("a"), file="a"))
    with_new = authority.trust(new.client_pair(common_name("b"), file="b"))
    with server.connect(with_old) as open_before:
        trusted.write_bytes(new.path.read_bytes())
        assert reload(server)
        with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"), server.shake_hands(with_old) as late:
            late.recv(1)
        with server.connect(with_new) as client:
            client.close()
        open_before.open_channel()
        open_before.close()


def test_two_reloads_at_once_do_not_mix(authority: Authority, start_tls: StartTls) -> None:
    server = start_tls(**authority.server_pair().settings)
    context = server.running.listeners.context
    assert context is not None

    async def twice() -> list[bool]:
        return list(await asyncio.gather(context.reload(), context.reload()))

    assert server.run(twice) == [True, True]
    serial_of(server.shake_hands(authority.trust()))
