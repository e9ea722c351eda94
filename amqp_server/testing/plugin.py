"""Fixtures of pytest: a real broker in the test run, empty for each test.

pytest loads this module in every run, so it imports nothing of the broker until a test uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.testing.broker import Broker
    from amqp_server.testing.broker_process import BrokerProcess
    from amqp_server.testing.virtual_host import VirtualHost


@pytest.fixture(scope="session")
def amqp_session_broker() -> Iterator[Broker]:
    """The broker of this test run; with xdist, that of this worker. All tests share it."""
    from amqp_server.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def amqp_broker(amqp_session_broker: Broker) -> Iterator[VirtualHost]:
    """An empty virtual host of the broker of this run, with `url`, `host`, `port` and `vhost`."""
    vhost = amqp_session_broker.new_vhost()
    yield vhost
    if not amqp_session_broker.is_running:
        # The test stopped it, and failed before the start: the next test must not fail too.
        amqp_session_broker.start()
    vhost.delete()


@pytest.fixture
def amqp_url(amqp_broker: VirtualHost) -> str:
    """URL of an empty virtual host of the broker of this run."""
    return amqp_broker.url


@pytest.fixture
def amqp_broker_process() -> Iterator[BrokerProcess]:
    """A broker in a process of its own, with `url`, `kill()`, `restart()` and real syncs."""
    from amqp_server.testing.broker_process import BrokerProcess

    with BrokerProcess() as process:
        yield process
