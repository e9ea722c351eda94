"""pika, aio-pika and amqplib over TLS, with a password and with a certificate (EXTERNAL)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import aio_pika
import pika
import pytest
from aio_pika.exceptions import AMQPConnectionError

from tests.interop.test_amqplib import NODE_DIRECTORY
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.tls.certificates import Authority, Pair, common_name
from tests.tls.conftest import tls_address

pytestmark = pytest.mark.interop

BODY = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make an authority."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Pair:
    """Return a certificate that names `guest`."""
    return authority.client_pair(common_name("guest"))


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[tuple[str, int]]:
    """Start a server that asks for certificates; it must not log one error."""
    options = (
        *authority.server_pair().options,
        *("--tls-ca", str(authority.path), "--tls-verify", "peer"),
        *("--ssl-cert-login-from", "common_name", "--tls-only"),
    )
    with RunningServer(tmp_path_factory.mktemp("tls") / "data", *options) as server:
        server.begin()
        yield tls_address(server)
        assert server.is_running, "".join(server.messages)
    assert not server.faults, "".join(server.messages)


@pytest.mark.parametrize("is_external", [False, True], ids=["password", "certificate"])
def test_pika(
    authority: Authority, certificate: Pair, address: tuple[str, int], is_external: bool
) -> None:
    trust = authority.trust(certificate if is_external else None)
    parameters = pika.ConnectionParameters(
        *address,
        ssl_options=pika.SSLOptions(trust, "localhost"),
        credentials=pika.credentials.ExternalCredentials()
        if is_external
        else pika.PlainCredentials("guest", "guest"),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("pika", exclusive=True)
        channel.basic_publish("", "pika", BODY)
        _, _, body = channel.basic_get("pika", auto_ack=True)
        assert body == BODY


async def test_aio_pika(authority: Authority, address: tuple[str, int]) -> None:
    host, port = address
    async with await aio_pika.connect(
        f"amqps://guest:guest@{host}:{port}/", ssl_context=authority.trust()
    ) as connection:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.body == BODY


async def test_aio_pika_with_a_certificate(
    authority: Authority, certificate: Pair, address: tuple[str, int]
) -> None:
    host, port = address
    url = (
        f"amqps://{host}:{port}/?auth=external&cafile={authority.path}"
        f"&certfile={certificate.certificate}&keyfile={certificate.key}"
    )
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        assert queue.name


async def test_aio_pika_that_does_not_trust_the_server(address: tuple[str, int]) -> None:
    host, port = address
    with pytest.raises(AMQPConnectionError):
        await aio_pika.connect(f"amqps://guest:guest@{host}:{port}/")


def test_amqplib(authority: Authority, certificate: Pair, address: tuple[str, int]) -> None:
    node = shutil.which("node")
    assert node is not None, "Node.js is not installed"
    assert (NODE_DIRECTORY / "node_modules" / "amqplib").is_dir(), "run `make node` first"
    host, port = address
    files = (authority.path, certificate.certificate, certificate.key)
    outcome = subprocess.run(
        [node, "tls.js", host, str(port), *map(str, files)],
        cwd=NODE_DIRECTORY,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert json.loads(outcome.stdout) == {"password": "same", "certificate": "same"}
