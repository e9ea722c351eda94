"""The constants of `amqp-server size` that do not depend on speed, beside a real server."""

from __future__ import annotations

from amqp_server.broker.storing import window_budget
from amqp_server.upkeep import disk_reserve, open_file_limit
from appendlog.files import open_files
from bench.broker_url import BrokerUrl
from bench.capacity.disk import allocated_bytes, measure_stored
from bench.capacity.memory import measure_connections, measure_queues
from cli import capacity, unit_costs
from tests.conftest import StartServer
from tests.servers import RunningServer

CONNECTIONS = 200
QUEUES = 500
MESSAGES = 100
MEMORY_FACTOR = 1.6
"""Allocators grow in steps, and the interpreted kernels have larger objects."""


def url_of(server: RunningServer) -> BrokerUrl:
    return BrokerUrl(server.host, server.port, "guest", "guest", "/")


def is_near(measured: float, constant: float, factor: float) -> bool:
    """Whether two figures differ by a factor at most."""
    return constant / factor <= measured <= constant * factor


def test_a_connection_takes_what_the_model_says(start_server: StartServer) -> None:
    server = start_server()
    found = measure_connections(url_of(server), server.pid, CONNECTIONS)

    assert is_near(found.memory_bytes, unit_costs.CONNECTION_BYTES, MEMORY_FACTOR), found
    assert round(found.files, 1) == unit_costs.CONNECTION_FILES


def test_a_queue_takes_what_the_model_says(start_server: StartServer) -> None:
    server = start_server()
    disk_before = allocated_bytes(server.storage_path)
    found = measure_queues(url_of(server), server.pid, QUEUES)
    disk_bytes = (allocated_bytes(server.storage_path) - disk_before) / QUEUES

    assert is_near(found.memory_bytes, unit_costs.QUEUE_BYTES, MEMORY_FACTOR), found
    assert found.files * QUEUES <= unit_costs.CACHED_FILES
    # Other file systems have blocks of other sizes.
    assert is_near(disk_bytes, unit_costs.STORED_QUEUE_BYTES, 2.0), disk_bytes


def test_a_message_on_the_disk_has_the_octets_of_the_model(start_server: StartServer) -> None:
    server = start_server()
    alone = measure_stored(url_of(server), server.storage_path, MESSAGES, at_once=1)
    assert is_near(alone.framing_bytes, unit_costs.STORED_MESSAGE_BYTES, 1.05)
    assert is_near(alone.header_bytes, unit_costs.HEADER_BYTES, 1.05)
    together = measure_stored(url_of(server), server.storage_path, MESSAGES, at_once=MESSAGES)
    assert together.framing_bytes < alone.framing_bytes / 2


def test_bounds_of_the_server_are_those_of_the_model() -> None:
    assert unit_costs.OTHER_FILES == open_file_limit.OTHERS
    assert unit_costs.CACHED_FILES == open_files.CACHES_FILES_MAX
    assert capacity.WINDOWS_BYTES == window_budget.HELD_BYTES_MAX
    assert capacity.RESERVE_BYTES == disk_reserve.RESERVE_BYTES
