"""The shovels of a process: one task for each, which begins and ends as the broker says."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from amqp_server.base.child_reports import report
from amqp_server.shovel.definition import ShovelError, parse_shovel, vhost_of
from amqp_server.shovel.owner import check_owned, login_name
from amqp_server.shovel.settings import LINE_BYTES_MAX
from amqp_server.shovel.shovel import Shovel

if TYPE_CHECKING:
    from amqp_server.shovel.link.amqp_uri import AmqpUri
    from amqp_server.shovel.settings import ShovelSettings

logger = logging.getLogger("amqp_server.shovel.workers")

LOCAL_USER: Final = "none"
"""User of connections to our own broker, as RabbitMQ shows it."""
COUNTS_SECONDS: Final = 1.0
"""Time between two reports of what was moved."""
REASON_CHARACTERS_MAX: Final = 500
_LOGIN: Final = re.compile(r"(amqps?://)[^\s\"]*@")
"""User and password of an address in a text."""


class _Owner(NamedTuple):
    user: str
    backend: str


class ShovelWorkers:
    """Runs the shovels that the broker names.

    Args:
        settings: Settings of the process.
    """

    def __init__(self, settings: ShovelSettings) -> None:
        self._settings = settings
        # The last task of a shovel, and those before it that still end.
        self._tasks: dict[tuple[str, str], set[asyncio.Task[None]]] = {}
        self._shovels: dict[tuple[str, str], tuple[Shovel, int, int]] = {}

    async def serve(self) -> None:
        """Follow the lines of the broker until they end."""
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
        )
        counting = asyncio.create_task(self._report_counts(), name="counts")
        while line := await reader.readline():
            fields = orjson.loads(line)
            if "set" in fields:
                self._set(**fields["set"])
            else:
                self._clear(**fields["clear"])
        counting.cancel()
        tasks = [task for key in list(self._tasks) for task in self._clear(*key)]
        await asyncio.gather(counting, *tasks, return_exceptions=True)

    def _set(
        self,
        vhost: str,
        name: str,
        serial: int,
        value: Any,  # noqa: ANN401 - JSON
        owner: dict[str, str] | None = None,
    ) -> None:
        earlier = self._clear(vhost, name)
        kept = None if owner is None else _Owner(**owner)
        running = self._run(vhost, name, serial, value, kept, earlier)
        task = asyncio.create_task(running, name=f"shovel {name}")
        tasks = self._tasks[vhost, name] = {*earlier, task}

        def forget(ended: asyncio.Task[None]) -> None:
            if self._tasks.get((vhost, name)) is tasks and all(each.done() for each in tasks):
                del self._tasks[vhost, name]

        for each in tasks:
            each.add_done_callback(forget)

    def _clear(self, vhost: str, name: str) -> list[asyncio.Task[None]]:
        """End a shovel; return what is ending: a peer that does not answer makes it slow."""
        tasks = [each for each in self._tasks.get((vhost, name), ()) if not each.done()]
        for each in tasks:
            if not each.cancelling():
                each.cancel()
        return tasks

    async def _run(
        self,
        vhost: str,
        name: str,
        serial: int,
        value: object,
        owner: _Owner | None,
        earlier: list[asyncio.Task[None]],
    ) -> None:
        if earlier:
            # All of them: one may have been replaced while it waited itself.
            await asyncio.wait(earlier)

        def tell(fields: dict[str, Any]) -> None:
            if "reason" in fields:
                fields = {**fields, "reason": fields["reason"][:REASON_CHARACTERS_MAX]}
            report({"shovel": {"vhost": vhost, "name": name, "serial": serial, **fields}})

        try:
            definition = parse_shovel(name, value)
            if owner is not None:
                check_owned(definition, owner)
        except ShovelError as error:
            # An earlier version of the server kept what it was given.
            # A user who may see states need not be allowed to see parameters.
            tell({"state": "terminated", "reason": _LOGIN.sub(r"\1", str(error))})
            return
        shovel = Shovel(
            vhost,
            name,
            definition,
            partial(self._local, LOCAL_USER if owner is None else login_name(owner.user)),
            self._settings.node_name,
            tell,
            is_owned=owner is not None,
        )
        self._shovels[vhost, name] = shovel, serial, 0
        try:
            if await shovel.run():
                tell({"is_done": True, "forwarded": shovel.moved})
        except Exception as error:
            tell({"state": "terminated", "reason": f"internal error: {error}"})
            logger.exception("shovel stopped vhost=%r name=%r", vhost, name)
        finally:
            del self._shovels[vhost, name]

    def _local(self, user: str, uri: AmqpUri) -> AmqpUri:
        """Return the address of the listener for shovels, with the virtual host of an address."""
        settings = self._settings
        return replace(
            uri,
            is_tls=False,
            host=settings.host,
            port=settings.port,
            user=user,
            password=settings.secret,
            mechanism="PLAIN",
            vhost=vhost_of(uri),
        )

    async def _report_counts(self) -> None:
        while True:
            await asyncio.sleep(COUNTS_SECONDS)
            for (vhost, name), (shovel, serial, reported) in list(self._shovels.items()):
                if shovel.moved != reported:
                    self._shovels[vhost, name] = shovel, serial, shovel.moved
                    fields = {"vhost": vhost, "name": name, "serial": serial}
                    report({"shovel": {**fields, "forwarded": shovel.moved}})
