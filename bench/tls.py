"""The command `python -m bench tls`: what TLS costs a broker, beside the same load without."""

from __future__ import annotations

import ssl
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trustme

from bench.brokers import OURS, RABBITMQ
from bench.connection import Connection
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError
from bench.options import CONTEXT, Names
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.rabbitmq import free_ports, start_rabbitmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.running_broker import RunningBroker

BODY_BYTES: Final = (128, 16_384)
_QUEUE: Final = "tls"
_CHANNEL: Final = 1
_READ_BYTES: Final = 256 * 1024
_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class TlsFigure:
    """One measured load.

    Attributes:
        broker: Name of the broker.
        is_tls: Whether publisher and consumer use TLS.
        body_bytes: Size of each message.
        message_count: Messages that were published and consumed.
        elapsed_seconds: Time from the first publish to the last delivery.
        cpu_seconds: CPU that the broker used.
    """

    broker: str
    is_tls: bool
    body_bytes: int
    message_count: int
    elapsed_seconds: float
    cpu_seconds: float

    @property
    def text(self) -> str:
        """One line of the report."""
        rate = self.message_count / self.elapsed_seconds
        return (
            f"{self.broker:9} {'TLS' if self.is_tls else 'plain':5} {self.body_bytes:6} B "
            f"{rate:10,.0f} msg/s {rate * self.body_bytes / 1e6:7,.0f} MB/s "
            f"{self.cpu_seconds / self.message_count * 1e6:7.2f} us CPU a message"
        )


@dataclass(frozen=True, slots=True)
class _TlsFiles:
    """Certificate and key of the brokers, and what clients need."""

    certificate: Path
    key: Path
    authority: Path
    trust: ssl.SSLContext


@click.command(context_settings=CONTEXT)
@click.option(
    "--brokers",
    type=Names([OURS, RABBITMQ]),
    default=f"{OURS},{RABBITMQ}",
    help="Brokers to start.",
)
@click.option("--megabytes", type=click.IntRange(1), default=512, help="Bodies of each run.")
def tls(brokers: list[str], megabytes: int) -> None:
    """Measure one publisher and one consumer without acks, with TLS 1.3 and without.

    Both run in this process, and decrypt there: a broker that is faster than they are shows in its
    CPU time.
    """
    for name in brokers:
        try:
            for figure in measure(name, megabytes * 1_000_000):
                click.echo(figure.text)
        except BenchError as error:
            raise click.ClickException(str(error)) from error


def measure(name: str, load_bytes: int) -> Iterator[TlsFigure]:
    """Start a broker and measure every size of message, plain and with TLS in turn.

    Args:
        name: Name of the broker.
        load_bytes: Bodies of each run, in bytes; small messages are a tenth of that.

    Raises:
        BenchError: The broker does not start or does not answer.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = _make_files(Path(directory))
        with _start(name, Path(directory), files) as (broker, tls_port):
            for body_bytes in BODY_BYTES:
                share = 1 if body_bytes > 1024 else 10
                count = max(load_bytes // share // body_bytes, 1)
                for port, trust in ((broker.url.port, None), (tls_port, files.trust)):
                    yield _run(broker, port, trust, body_bytes, count)


def _make_files(directory: Path) -> _TlsFiles:
    authority = trustme.CA()
    leaf = authority.issue_cert(_HOST, key_type=trustme.KeyType.ECDSA)
    certificate, key, path = (directory / name for name in ("server.pem", "server.key", "ca.pem"))
    leaf.cert_chain_pems[0].write_to_path(certificate)
    leaf.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(path)
    return _TlsFiles(certificate, key, path, ssl.create_default_context(cafile=path))


@contextmanager
def _start(name: str, directory: Path, files: _TlsFiles) -> Iterator[tuple[RunningBroker, int]]:
    """Start a broker; yields it, and its port for TLS."""
    (port,) = free_ports(1)
    place = directory / name
    place.mkdir()
    if name == OURS:
        options = (
            *("--tls-certificate", str(files.certificate), "--tls-key", str(files.key)),
            *("--tls-port", str(port)),
        )
        with start_our_server(name, place, options=options) as broker:
            yield broker, port
    else:
        settings = (
            f"listeners.ssl.1 = {_HOST}:{port}\n"
            f"ssl_options.certfile = {files.certificate}\n"
            f"ssl_options.keyfile = {files.key}\n"
            f"ssl_options.cacertfile = {files.authority}\n"
            "ssl_options.versions.1 = tlsv1.3\n"
        )
        with start_rabbitmq(name, place, settings=settings) as broker:
            yield broker, port


def _run(
    broker: RunningBroker, port: int, trust: ssl.SSLContext | None, body_bytes: int, count: int
) -> TlsFigure:
    """Publish and consume a number of messages of one size."""
    url = broker.url.at(port)
    block = PublishBlock(_CHANNEL, _QUEUE, body_bytes=body_bytes)
    blocks = -(-count // block.block_messages)
    with (
        Connection(url, _CHANNEL, trust=trust) as publisher,
        Connection(url, _CHANNEL, trust=trust) as consumer,
    ):
        consumer.declare_queue(_QUEUE, durable=False)
        consumer.start_consumer(_QUEUE, prefetch=0)
        probe = ServerProbe(broker.pid)
        begin = time.monotonic()

        def publish() -> None:
            for number in range(blocks):
                publisher.send(block.encode(number, 0))

        sender = threading.Thread(target=publish, name="publisher")
        sender.start()
        _consume(consumer, blocks * block.block_messages)
        elapsed = time.monotonic() - begin
        cpu_seconds = probe.cpu_seconds()
        sender.join()
        consumer.delete_queue(_QUEUE)
    return TlsFigure(
        broker.name,
        trust is not None,
        body_bytes,
        blocks * block.block_messages,
        elapsed,
        cpu_seconds or 0.0,
    )


def _consume(consumer: Connection, count: int) -> None:
    """Read all deliveries: they have the size of the first one."""
    octets = bytearray(consumer.take_unread())
    layout = None
    while layout is None:
        octets += consumer.receive()
        layout = DeliveryLayout.try_learn(octets)
    left_bytes = count * layout.delivery_bytes - len(octets)
    room = bytearray(_READ_BYTES)
    while left_bytes > 0:
        got = consumer.socket.recv_into(room)
        if not got:
            raise BenchError("the broker closed the connection")
        left_bytes -= got
    if left_bytes < 0:
        raise BenchError(f"{-left_bytes} bytes more than {count} deliveries")
