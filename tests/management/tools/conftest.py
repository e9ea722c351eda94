"""The API of a broker of ours."""

from urllib.parse import urlsplit

import pytest

from tests.management.conftest import ManagementServer
from tests.management.tools.api import Api


def api_of(server: ManagementServer) -> Api:
    """Return the API of a broker for its user `guest`."""
    parts = urlsplit(server.url)
    return Api(parts.hostname or "", parts.port or 0, server.amqp_port)


@pytest.fixture
def our_api(management_server: ManagementServer) -> Api:
    """Return the API of a broker that has nothing yet."""
    return api_of(management_server)
