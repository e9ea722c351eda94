"""The benchmark of declares against a server of ours."""

import pytest

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.declares import STEPS, declare_queue, measure
from bench.errors import UnexpectedFrameError
from tests.servers import RunningServer


def test_all_that_is_declared_is_deleted_in_the_end(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    for send, connections in ((Connection.ask_one_by_one, 1), (Connection.ask_pipelined, 3)):
        for _, make in STEPS:
            assert measure(url, make, send, count=7, connections=connections) > 0
        kinds = ("queues", "exchanges", "bindings")
        assert not [
            path
            for kind in kinds
            for path in (server.storage_path / "metadata" / kind).rglob("*.json")
        ]


def test_a_refused_request_is_no_figure(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    with pytest.raises(UnexpectedFrameError):
        measure(
            url,
            lambda number: declare_queue(number)._replace(answer=(50, 41)),
            Connection.ask_pipelined,
            count=2,
            connections=1,
        )
