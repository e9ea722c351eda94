"""Fixtures: the broker under test, connections to it, free names, and what the marks mean."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pamqp.commands import Connection

from bench.broker_url import BrokerUrl
from tests.amqp_client import AmqpClient, ConnectionLostError
from tests.amqp_client import connect as open_connection
from tests.conformance.administration import (
    CONTROL_VARIABLE,
    Administration,
    OurAdministration,
    RabbitmqAdministration,
)
from tests.conformance.broker import Broker, named_url, rabbitmq_version, remove
from tests.conformance.polling import SECONDS_MAX
from tests.servers import RunningServer

Dial = Callable[[], AmqpClient]
Connect = Callable[..., AmqpClient]
NewName = Callable[[], str]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Give the broker that AMQP_URL names, or a server of ours, which must not log one error."""
    url = named_url()
    if url is not None:
        yield Broker(url)
        return
    with RunningServer(tmp_path_factory.mktemp("conformance") / "data") as server:
        server.start()
        url = BrokerUrl(server.host, server.port, "guest", "guest", "/")
        yield Broker(url, server.storage_path)
        assert server.is_running, "".join(server.messages)
    assert not server.faults, "".join(server.messages)


@pytest.fixture(scope="session")
def administration(broker: Broker) -> Administration:
    """Give what changes users and permissions of the broker."""
    if broker.storage_path is not None:
        return OurAdministration(broker.storage_path)
    if CONTROL_VARIABLE not in os.environ:
        pytest.skip(f"{CONTROL_VARIABLE} names no rabbitmqctl for {broker.url.host}")
    return RabbitmqAdministration()


@pytest.fixture
def new_name(broker: Broker) -> Iterator[NewName]:
    """Return a function that returns free names.

    Queues and exchanges with these names are deleted after the test, when its connections are
    closed.
    """
    given: list[str] = []

    def give() -> str:
        given.append(f"conformance-{uuid4().hex[:12]}")
        return given[-1]

    yield give
    if given:
        with open_connection(broker.address, over=None, **_credentials(broker)) as client:
            remove(client, given)
            client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)


@pytest.fixture
def name(new_name: NewName) -> str:
    """Return one name of `new_name`, for a queue, an exchange, or one of each."""
    return new_name()


@pytest.fixture
def dial(broker: Broker, new_name: NewName) -> Iterator[Dial]:
    """Return a function that opens sockets to the broker, for tests of the handshake itself."""
    with ExitStack() as dialled:
        yield lambda: dialled.enter_context(AmqpClient(broker.address, seconds_max=SECONDS_MAX))


@pytest.fixture
def connect(broker: Broker, dial: Dial) -> Connect:
    """Return a function that opens connections: `connect(channels=1, confirms=False, **options)`.

    Channels 1 to `channels` are open. The options are those of `AmqpClient.open`; user, password
    and virtual host are the broker's unless given. All are dropped after the test.
    """

    def open_client(
        *,
        channels: int = 1,
        confirms: bool = False,
        **options: Any,  # noqa: ANN401 - as the client takes them
    ) -> AmqpClient:
        client = dial()
        client.open(**(_credentials(broker) | options))
        for number in range(1, channels + 1):
            client.open_channel(number, confirms=confirms)
        return client

    return open_client


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection with channel 1."""
    return connect()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Against RabbitMQ, expect `differs` to fail and leave `ours_only` out.

    `differs_from_3_10` has to fail with RabbitMQ 3.10 and to pass with RabbitMQ 4.2. Of versions
    between them it is not known exactly: there both kinds may pass or fail.
    """
    here = Path(__file__).parent
    conformance = [item for item in items if here in item.path.parents]
    version = rabbitmq_version() if conformance else None
    if version is None:
        return
    foreign = [item for item in conformance if item.get_closest_marker("ours_only")]
    config.hook.pytest_deselected(items=foreign)
    items[:] = [item for item in items if item not in foreign]
    is_older, is_known = version.startswith("3.10."), version.startswith(("3.10.", "4.2."))
    for item in conformance:
        reasons = [
            mark.kwargs["rabbitmq"]
            for mark in item.iter_markers("differs")
            if not is_older or mark.kwargs["since"] < 4
        ]
        if is_older or not is_known:
            reasons += [mark.kwargs["instead"] for mark in item.iter_markers("differs_from_3_10")]
        for reason in reasons:
            # A mistake in the test itself is no difference.
            raises = (AssertionError, ConnectionLostError, TimeoutError)
            item.add_marker(pytest.mark.xfail(reason=reason, raises=raises, strict=is_known))


def _credentials(broker: Broker) -> dict[str, str]:
    url = broker.url
    return {"user": url.user, "password": url.password, "vhost": url.vhost}


@pytest.fixture
def dead_letters(client: AmqpClient, new_name: NewName) -> str:
    """Declare a queue for dead letters."""
    queue = new_name()
    client.declare(queue)
    return queue
