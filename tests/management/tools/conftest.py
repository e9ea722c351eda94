"""The API that tools talk to: of a broker of ours, unless another one is named.

`TOOLS_API=HOST:PORT:AMQP_PORT` names another broker that has nothing yet, RabbitMQ, when an
expectation itself is in doubt: `python -m tests.management.tools.rabbitmq_node pytest ...`.
"""

import os
from urllib.parse import urlsplit

import pytest

from tests.management.conftest import ManagementServer, StartManagementServer
from tests.management.tools.api import Api
from tests.management.tools.rabbitmq_node import API_VARIABLE


def api_of(server: ManagementServer) -> Api:
    """Return the API of a broker for its user `guest`."""
    parts = urlsplit(server.url)
    return Api(parts.hostname or "", parts.port or 0, server.amqp_port)


@pytest.fixture
def api(start_management_server: StartManagementServer) -> Api:
    """Return the API of a broker that has nothing yet."""
    other = os.environ.get(API_VARIABLE)
    if other:
        host, port, amqp_port = other.split(":")
        return Api(host, int(port), int(amqp_port))
    return api_of(start_management_server())
