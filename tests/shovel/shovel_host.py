"""A real server that runs shovels, with what tests ask of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.channel import LinkChannel
from amqp_server.shovel.link.connection import connect
from tests.control.asking import Asking
from tests.servers import RunningServer

LOOK_SECONDS = 0.01


class ShovelHost:
    """A server, its control socket, and its shovels.

    Args:
        server: The server's process.

    Attributes:
        server: As given.
        asking: Its control socket.
    """

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.asking = Asking(server.storage_path)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"amqp://guest:guest@{self.server.host}:{self.server.port}"

    def set(self, name: str, vhost: str = "/", **keys: object) -> None:
        """Set a shovel, by default from `from` to `to` of this server; `_` stands for `-`."""
        value: dict[str, Any] = {"src-uri": "amqp://", "dest-uri": "amqp://"}
        if "src_exchange" not in keys:
            value["src-queue"] = "from"
        if "dest_exchange" not in keys:
            value["dest-queue"] = "to"
        value |= {key.replace("_", "-"): each for key, each in keys.items()}
        place = {"vhost": vhost, "component": "shovel", "name": name}
        self.asking.ask("parameters.set", **place, value={"value": value})

    def clear(self, name: str, vhost: str = "/") -> None:
        """Delete a shovel."""
        self.asking.ask("parameters.clear", vhost=vhost, component="shovel", name=name)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the shovels by name."""
        return {row["name"]: row for row in self.asking.ask("shovels.list")}

    def until(self, name: str, state: str) -> dict[str, Any]:
        """Return the row of a shovel when it is in a state; the test's own limit ends the wait.

        The process of the shovels reports states in its own time: a line of the log, or a message
        that has arrived, does not say that the server knows the state by now.
        """
        while True:
            row = self.rows().get(name, {})
            if row.get("state") == state:
                return row
            time.sleep(LOOK_SECONDS)

    def until_there_are(self, *names: str) -> None:
        """Wait until these are the shovels; they follow the parameters by a task of their own."""
        while self.rows().keys() != set(names):
            time.sleep(LOOK_SECONDS)

    def kill_shovels(self) -> None:
        """Kill the process of the shovels, as an operator by mistake would."""
        os.kill(self.pid_of_shovels(), signal.SIGKILL)

    def pid_of_shovels(self) -> int:
        """Return the process id of the shovels."""
        (pid,) = shovel_processes(self.server.pid)
        return pid


def shovel_processes(parent: int) -> list[int]:
    """Return the ids of the processes of shovels that a server has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            is_shovel = b"amqp_server.shovel" in (process / "cmdline").read_bytes()
        except OSError:
            continue
        if is_shovel and int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(process.name))
    return found


@asynccontextmanager
async def opened(*urls: str) -> AsyncIterator[list[LinkChannel]]:
    """Open a channel at each address."""
    connections = [await connect(AmqpUri.parse(each)) for each in urls]
    try:
        yield [await each.open_channel() for each in connections]
    finally:
        for each in connections:
            await each.close()
