"""New certificates and authorities in a running server: open connections live on."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from amqp_server.base.clock import Clock
from amqp_server.connections.tls import reloading
from amqp_server.connections.tls.contexts import load_context
from amqp_server.connections.tls.reloading import CHECK_SECONDS, CurrentContext
from amqp_server.connections.tls.settings import TlsSettings
from amqp_server.testing.clock import TurnedClock
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


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = authority.server_pair()
    current = CurrentContext(TlsSettings((str(pair.certificate),), (str(pair.key),)))
    assert not await current.check()
    reads = []

    def read(settings: TlsSettings) -> ssl.SSLContext:
        reads.append(load_context(settings))
        os.utime(pair.certificate, (1, len(reads)))
        return reads[-1]

    monkeypatch.setattr(reloading, "load_context", read)
    os.utime(pair.certificate, (1, 100))
    assert await current.check()
    assert await current.check()
    monkeypatch.setattr(reloading, "load_context", load_context)
    assert await current.check()
    assert not await current.check()


async def test_files_that_cannot_be_used_are_not_read_again_before_they_change(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.server_pair()
    current = CurrentContext(TlsSettings((str(pair.certificate),), (str(pair.key),)))
    good = pair.certificate.read_bytes()
    pair.certificate.write_bytes(b"no certificate")

    assert not await current.check()
    assert caplog.text.count("TLS files not reloaded") == 1
    assert not await current.check()
    assert caplog.text.count("TLS files not reloaded") == 1
    pair.certificate.write_bytes(good)
    assert await current.check()


class Rounds:
    """A clock that stands until it waits for a round, which comes at once, or `late_seconds` late.

    Args:
        is_enough: Set when four rounds were waited for; then no other comes.
        late_seconds: How late each of the first rounds is.
    """

    def __init__(self, is_enough: asyncio.Event, late_seconds: Iterable[float] = ()) -> None:
        self.dues: list[float] = []
        self._is_enough = is_enough
        self._late_seconds = iter(late_seconds)
        self._now_seconds = 0.0

    def monotonic(self) -> float:
        return self._now_seconds

    async def until_round(self, due: float, _seconds: float) -> float:
        self.dues.append(due)
        self._now_seconds = due + next(self._late_seconds, 0.0)
        if len(self.dues) == 4:
            self._is_enough.set()
            await asyncio.Event().wait()
        return due


async def watch(current: CurrentContext, clock: Rounds, is_enough: asyncio.Event) -> None:
    """Let a context watch its files until there were enough rounds."""
    watching = asyncio.create_task(current.watch(cast("Clock", clock)))
    enough = asyncio.create_task(is_enough.wait())
    await asyncio.wait((watching, enough), return_when=asyncio.FIRST_COMPLETED)
    assert not watching.done()
    watching.cancel()


async def test_files_are_checked_at_an_interval_which_a_late_check_begins_anew(
    authority: Authority,
) -> None:
    pair = authority.server_pair()
    current = CurrentContext(TlsSettings((str(pair.certificate),), (str(pair.key),)))
    is_enough = asyncio.Event()
    # The machine slept for nine and a half intervals before the second round.
    clock = Rounds(is_enough, [0.0, 9.5 * CHECK_SECONDS])

    await watch(current, clock, is_enough)

    assert [due / CHECK_SECONDS for due in clock.dues] == [1.0, 2.0, 12.5, 13.5]


async def test_one_error_does_not_end_the_watch(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.server_pair()
    current = CurrentContext(TlsSettings((str(pair.certificate),), (str(pair.key),)))
    is_enough = asyncio.Event()

    async def check() -> bool:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(current, "check", check)
    await watch(current, Rounds(is_enough), is_enough)
    assert caplog.text.count("TLS files not checked") == 3
