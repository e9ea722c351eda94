"""The process of the shovels by itself, told what to do as the broker tells it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from amqp_server.protocol.methods import ConnectionOpenOk
from amqp_server.testing import Broker
from tests.shovel.link.messages import header_of
from tests.shovel.link.relay import Change, Relay
from tests.shovel.link.test_moving import channels


class Workers:
    """The process, between its two pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout

    def tell(self, *orders: dict[str, Any]) -> None:
        self._input.write(b"".join(orjson.dumps(each) + b"\n" for each in orders))

    async def reports(self) -> AsyncIterator[dict[str, Any]]:
        """Return what it reports, until it ends."""
        async for line in self._output:
            yield orjson.loads(line)

    async def until(self, **fields: object) -> None:
        """Return when it has reported a shovel with these members."""
        async for each in self.reports():
            found = each.get("shovel", {})
            if fields.items() <= found.items():
                return
        raise AssertionError("the process has ended")


@asynccontextmanager
async def workers() -> AsyncIterator[Workers]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "amqp_server.shovel"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    found = Workers(process)
    door = {"host": "127.0.0.1", "port": 1, "secret": "", "node_name": "n"}
    found.tell({"broker_pid": os.getpid(), **door})
    try:
        yield found
    finally:
        process.kill()
        await process.wait()


def shovel(serial: int, source: str, destination: str, queue: str) -> dict[str, Any]:
    value = {"src-uri": source, "dest-uri": destination, "src-queue": "from", "dest-queue": queue}
    return {"set": {"vhost": "/", "name": "s", "serial": serial, "value": value}}


async def test_changes_wait_for_a_shovel_that_ends_slowly() -> None:
    is_connected = asyncio.Event()

    def deaf() -> Change:
        def change(octets: bytes) -> tuple[bytes, bool]:
            if is_connected.is_set():
                return b"", False
            if ConnectionOpenOk.identity in octets:
                is_connected.set()
            return octets, False

        return change

    with Broker() as broker:
        async with (
            Relay(broker.port, deaf) as relay,
            workers() as process,
            channels(broker) as (fed,),
        ):
            await fed.declare_queue("from")
            process.tell(shovel(1, broker.url, relay.url, "a"))
            await is_connected.wait()
            # The first one gets no answer when it closes its connection. The second one is
            # replaced before it has begun.
            process.tell(shovel(2, broker.url, broker.url, "b"))
            process.tell(shovel(3, broker.url, broker.url, "c"))
            await process.until(serial=3, state="running")
            await relay.until_unused()
            await fed.publish("", "from", header_of(b"1"), b"1")
            await process.until(serial=3, forwarded=1)


async def test_the_state_is_reported_before_the_line_that_says_so() -> None:
    """Who waits for the line and then looks at the state sees the state that it speaks of."""
    async with workers() as process:
        nowhere = "amqp://127.0.0.1:1"
        process.tell(shovel(1, nowhere, nowhere, "a"))
        states = []
        async for each in process.reports():
            states.append(each.get("shovel", {}).get("state"))
            if "shovel failed" in each.get("text", ""):
                break
        assert states == ["starting", "terminated", None]
