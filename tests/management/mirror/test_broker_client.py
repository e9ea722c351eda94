"""The client of the control socket: real requests to a real broker, several at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amqp_server.control.listener import CONNECTIONS_MAX
from amqp_server.management.broker_client import BrokerAway, BrokerClient, BrokerRefused
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
