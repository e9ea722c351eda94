"""The certificates of the management server are read again, whatever happened the last time."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from amqp_server.connections.tls import reloading
from amqp_server.connections.tls.contexts import load_context
from amqp_server.connections.tls.settings import TlsSettings
from amqp_server.management.certificates import Certificates
from tests.tls.certificates import Authority


async def test_a_reload_that_fails_is_not_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Authority(tmp_path).server_pair()
    settings = TlsSettings((str(pair.certificate),), (str(pair.key),))
    certificates = Certificates(settings)
    loop = asyncio.get_running_loop()
    calls: list[asyncio.Event] = [asyncio.Event(), asyncio.Event()]
    waiting = iter(calls)

    def fails_once(wanted: TlsSettings) -> ssl.SSLContext:
        called = next(waiting)
        loop.call_soon_threadsafe(called.set)
        if called is calls[0]:
            raise RuntimeError("can't start new thread")
        return load_context(wanted)

    monkeypatch.setattr(reloading, "load_context", fails_once)
    watching = asyncio.create_task(certificates.watch())
    try:
        for called in calls:
            certificates.reload()
            await asyncio.wait(
                (watching, asyncio.create_task(called.wait())), return_when=asyncio.FIRST_COMPLETED
            )
            assert called.is_set()
            assert not watching.done()
    finally:
        watching.cancel()
    assert "TLS files not read again" in caplog.text
