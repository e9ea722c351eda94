"""The client of the control socket: real requests to a real broker, several at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from amqp_server.control.listener import CONNECTIONS_MAX
from amqp_server.management import broker_client
from amqp_server.management.broker_client import BrokerAway, BrokerClient, BrokerRefused
from tests.limits import HANG_SECONDS
from tests.management.mirror.conftest import Observed


async def test_returns_results(observed: Observed) -> None:
    (host,) = await observed.client.call("vhosts.list")
    assert host["name"] == "/"


async def test_a_refusal_has_kind_and_reason(observed: Observed) -> None:
    with pytest.raises(BrokerRefused, match="already exists") as refusal:
        await observed.client.call("vhosts.add", {"name": "/"})
    assert refusal.value.kind == "already_exists"
    # The connection goes on.
    assert await observed.client.call("vhosts.list")


async def test_an_argument_that_is_no_json_is_refused_before_it_is_sent(observed: Observed) -> None:
    with pytest.raises(BrokerRefused) as refusal:
        await observed.client.call("vhosts.add", {"name": "\udcff"})
    assert refusal.value.kind == "invalid_argument"


async def test_requests_at_the_same_time(observed: Observed) -> None:
    client = BrokerClient(observed.path, connections_max=4)
    answers = await asyncio.gather(*(client.call("status") for _ in range(50)))
    assert {answer["product"] for answer in answers} == {"amqp-server"}
    await client.close()


async def test_a_connection_that_the_broker_closed_is_replaced(observed: Observed) -> None:
    client = BrokerClient(observed.path, connections_max=1)
    await client.call("status")
    # So many others that the idle connection loses its place.
    others = BrokerClient(observed.path, connections_max=CONNECTIONS_MAX)
    for _ in range(2):
        await asyncio.gather(*(others.call("status") for _ in range(CONNECTIONS_MAX)))
    assert (await client.call("status"))["product"] == "amqp-server"
    await client.close()
    await others.close()


async def test_progress_may_be_waited_for(observed: Observed) -> None:
    kinds: list[Any] = []

    async def note(report: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        kinds.append(report.get("kind"))

    arguments = {"since": 0, "kinds": ["vhosts", "exchanges"]}
    await observed.client.call("management.changes", arguments, on_progress=note)
    assert kinds[0] is None
    assert set(kinds[1:]) == {"vhosts", "exchanges"}


async def test_an_error_of_the_caller_ends_the_request(observed: Observed) -> None:
    def fail(_report: dict[str, Any]) -> None:
        raise ZeroDivisionError

    arguments = {"since": 0, "kinds": ["exchanges"]}
    with pytest.raises(ZeroDivisionError):
        await observed.client.call("management.changes", arguments, on_progress=fail)
    assert await observed.client.call("vhosts.list")


async def test_an_unknown_kind_is_refused(observed: Observed) -> None:
    with pytest.raises(BrokerRefused, match="unknown kind"):
        await observed.client.call("management.changes", {"since": 0, "kinds": ["rows"]})


async def test_no_broker_is_there(tmp_path: Path) -> None:
    with pytest.raises(BrokerAway, match="cannot be asked"):
        await BrokerClient(tmp_path).call("status")


async def test_connects_that_nobody_waits_for_are_not_made_when_the_disk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hang of an hour, asked by every probe, must not end in thousands of connections."""
    goes_on, made = threading.Event(), []

    def hanging(path: Path) -> socket.socket:
        made.append(path)
        goes_on.wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(broker_client, "_connected", hanging)
    monkeypatch.setattr(broker_client, "CONNECT_SECONDS_MAX", 0.01)
    # As many threads as a small machine has for it.
    with ThreadPoolExecutor(6) as workers:
        asyncio.get_running_loop().set_default_executor(workers)
        client = BrokerClient(tmp_path)
        for _ in range(50):
            with pytest.raises(BrokerAway, match="its disk does not answer"):
                await client.call("probe")
        goes_on.set()
    assert len(made) <= broker_client.CONNECTIONS_MAX


async def test_a_call_that_is_cancelled_when_it_is_connected_leaves_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    caller = asyncio.create_task(BrokerClient(tmp_path).call("probe"))

    loop = asyncio.get_running_loop()

    def connected(_: Path) -> socket.socket:
        # In the turn in which the socket is there.
        loop.call_soon_threadsafe(caller.cancel)
        return ours

    monkeypatch.setattr(broker_client, "_connected", connected)
    with pytest.raises(asyncio.CancelledError):
        await caller
    # Our side is closed.
    theirs.settimeout(HANG_SECONDS)
    assert await asyncio.to_thread(theirs.recv, 1) == b""
    theirs.close()


async def test_connects_that_hang_leave_the_threads_of_other_work_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are compressed in threads, the metrics that tell of the hung disk among them."""
    goes_on = threading.Event()

    def hanging(_: Path) -> socket.socket:
        goes_on.wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(broker_client, "_connected", hanging)
    monkeypatch.setattr(broker_client, "CONNECT_SECONDS_MAX", 0.01)
    # As many threads as a small machine has for it.
    with ThreadPoolExecutor(6) as workers:
        asyncio.get_running_loop().set_default_executor(workers)
        client = BrokerClient(tmp_path)
        for _ in range(6):
            with pytest.raises(BrokerAway):
                await client.call("probe")
        try:
            await asyncio.wait_for(asyncio.to_thread(int), HANG_SECONDS)
        finally:
            goes_on.set()
