"""The process of the shovels: it runs while there is one, and is told which there are.

The parameters of the component `shovel` are the shovels. The process gets them with each change,
and reports what becomes of them. If it dies it is started again, and gets all of them again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.access.errors import NoSuchVhostError
from amqp_server.children.child_process import ChildProcess
from amqp_server.connections.shovel_listener import HOST
from amqp_server.shovel.definition import COMPONENT, ShovelError, parse_shovel
from amqp_server.shovel.settings import LINE_BYTES_MAX
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.parameters import ParameterOwner
    from amqp_server.connections.shovel_listener import ShovelListener
    from amqp_server.operations.parameter_settings import ParameterSettings
    from amqp_server.shovel.definition import Side

logger = logging.getLogger("amqp_server.shovel_process")

SHOVELS_MAX: Final = 1000
"""Shovels that run; more of them are not started."""
RETRY_SECONDS: Final = 5.0
"""Wait after the disk, or the system, has refused something."""
_STARTING: Final = "starting"
_RUNNING: Final = "running"
_TERMINATED: Final = "terminated"
_OFF: Final = {"state": _TERMINATED, "reason": "the server was started with --no-shovels"}
Key = tuple[str, str]
"""Virtual host and name of a shovel."""


class _Shovel:
    """One shovel as the broker knows it.

    Args:
        value: Value of its parameter.
        owner: The user who has set it; None: an administrator.
        serial: Number of this definition, another one after each change.
        starts: How often it ran before this change.
    """

    def __init__(
        self,
        name: str,
        value: object,
        owner: ParameterOwner | None,
        serial: int,
        starts: int = 0,
    ) -> None:
        self.owner = owner
        self.starts = starts
        self.value = value
        self.serial = serial
        self.details = _details(name, value)
        self.state: dict[str, Any] = {}
        self.since = ""
        self.begin()

    def begin(self) -> None:
        """Note that it starts, or starts again."""
        self.state = {"state": _STARTING}
        self.since = _now()


class ShovelProcess:
    """Keeps the process of the shovels running while there are any.

    Args:
        broker: Broker whose shovels they are.
        parameters: Its runtime parameters, which define them.
        listener: Listener on which the process connects to this server.
        is_off: Whether no shovel runs, and the process is never started.
    """

    def __init__(
        self,
        broker: Broker,
        parameters: ParameterSettings,
        listener: ShovelListener,
        *,
        is_off: bool = False,
    ) -> None:
        self._is_off = is_off
        self._broker = broker
        self._parameters = parameters
        self._listener = listener
        self._child = ChildProcess("shovels", "amqp_server.shovel", self, logger)
        self._shovels: dict[Key, _Shovel] = {}
        self._known: dict[Key, int] = {}
        self._serials = count(1)
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._deletions: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """Process id; None if no shovel has run yet."""
        return self._child.pid

    def start(self) -> None:
        """Begin to follow the parameters; returns at once."""
        self._broker.on_parameters_changed = self._changed.set
        self._changed.set()
        # Here and not at the first change: no user asked for what the task does.
        self._following = asyncio.create_task(self._follow(), name="shovels")

    async def stop(self) -> None:
        """End the process."""
        tasks = [*self._deletions, *filter(None, (self._following,))]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._child.stop()
        self._listener.close()

    # For commands

    def rows(self) -> list[dict[str, Any]]:
        """Return what is shown of each shovel, by virtual host and name."""
        return [self._row(key) for key in sorted(self._shovels)]

    def has(self, vhost: str, name: str) -> bool:
        """Return whether there is such a shovel."""
        return (vhost, name) in self._shovels

    def restart(self, vhost: str, name: str) -> bool:
        """Start a shovel again; return whether there is one."""
        shovel = self._shovels.get((vhost, name))
        if shovel is None:
            return False
        shovel.serial = next(self._serials)
        shovel.begin()
        self._changed.set()
        return True

    def _row(self, key: Key) -> dict[str, Any]:
        shovel = self._shovels[key]
        return {
            "name": key[1],
            "vhost": key[0],
            "type": "dynamic",
            "timestamp": shovel.since,
            **shovel.details,
            **shovel.state,
        }

    # For the process

    def descriptors(self) -> list[int]:
        """Return the descriptors that the process inherits: none."""
        return []

    def settings(self) -> dict[str, Any]:
        """Return what a new process needs to know; it knows no shovel yet."""
        self._known = {}
        self._changed.set()
        return {
            "broker_pid": os.getpid(),
            "host": HOST,
            "port": self._listener.port,
            "secret": self._listener.new_secret(),
            "node_name": f"rabbit@{socket.gethostname().partition('.')[0]}",
        }

    def process_ended(self) -> None:
        """Note that no shovel runs."""
        for each in self._shovels.values():
            each.begin()

    def take_report(self, fields: dict[str, Any]) -> bool:
        """Note the state of a shovel; return whether the report has one."""
        found = fields.get("shovel")
        if not isinstance(found, dict):
            return False
        key = found.pop("vhost"), found.pop("name")
        shovel = self._shovels.get(key)
        if shovel is None or found.pop("serial") != shovel.serial:
            return True
        if found.pop("is_done", False):
            task = asyncio.create_task(self._delete(key, shovel.value), name="shovel is done")
            self._deletions.add(task)
            task.add_done_callback(self._deletions.discard)
        if "state" in found:
            shovel.since = _now()
            shovel.state = {
                name: shovel.state[name] for name in ("forwarded",) if name in shovel.state
            }
        shovel.state.update(found)
        if "state" in found:
            self._note_status(key, found)
        if found.get("state") == _RUNNING:
            shovel.starts += 1
            logger.info("shovel running vhost=%r name=%r starts=%d", *key, shovel.starts)
        return True

    # Following the parameters

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._look()
            try:
                await self._serve()
            except OSError as error:
                logger.warning("shovels cannot start error=%s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _look(self) -> None:
        """Compare what runs with the parameters."""
        wanted: dict[Key, tuple[Any, ParameterOwner | None]] = {}
        time_slice = self._broker.turn.new_slice()
        for host in list(self._broker.vhosts.values()):
            for (component, name), value in list(host.parameters.items()):
                if component == COMPONENT:
                    owner = host.parameter_owners.get((component, name))
                    wanted[host.name, name] = value, owner
            await time_slice.yield_if_due()
        for key in [key for key in self._shovels if key not in wanted]:
            del self._shovels[key]
            self._note("shovel.worker.removed", key, {})
        for key, (value, owner) in wanted.items():
            before = self._shovels.get(key)
            if before is None or before.value is not value or before.owner != owner:
                starts = 0 if before is None else before.starts
                self._shovels[key] = _Shovel(key[1], value, owner, next(self._serials), starts)
                await time_slice.yield_if_due()

    async def _serve(self) -> None:
        """Start or end the process, and tell it what has changed.

        Raises:
            OSError: The listener cannot be opened.
        """
        if self._is_off:
            self._end_all()
            return
        if not self._shovels:
            if self._child.is_started:
                await self._child.stop()
                self._listener.close()
                logger.info("shovels ended reason=there are none")
            return
        if not self._child.is_started:
            await self._listener.open()
            self._child.start()
            return  # its settings are the next change
        lines: list[bytes] = []
        for key in [key for key in self._known if key not in self._shovels]:
            del self._known[key]
            lines.append(_line("clear", key))
        for key, shovel in self._shovels.items():
            if self._known.get(key) == shovel.serial:
                continue
            if key not in self._known and len(self._known) >= SHOVELS_MAX:
                reason = f"{SHOVELS_MAX} shovels run already, no more are allowed"
                shovel.state = {"state": _TERMINATED, "reason": reason}
                continue
            owner = None if shovel.owner is None else shovel.owner._asdict()
            line = _line("set", key, serial=shovel.serial, value=shovel.value, owner=owner)
            if len(line) >= LINE_BYTES_MAX:
                # Definitions may have it: it would end the process, and all shovels with it.
                reason = f"its definition has {len(line)} bytes, at most {LINE_BYTES_MAX} run"
                shovel.state = {"state": _TERMINATED, "reason": reason}
                if self._known.pop(key, None) is not None:
                    lines.append(_line("clear", key))
                continue
            self._known[key] = shovel.serial
            lines.append(line)
        if lines:
            await self._child.send(b"".join(lines))

    def _end_all(self) -> None:
        """Note of each shovel that it does not run, and say so in the log."""
        new = [each for each in self._shovels.values() if each.state != _OFF]
        for each in new:
            each.state = dict(_OFF)
        if new:
            logger.warning("shovels do not run reason=--no-shovels count=%d", len(new))

    async def _delete(self, key: Key, value: object) -> None:
        """Delete the parameter of a shovel that has moved what it should."""
        vhost, name = key
        while True:
            try:
                await self._parameters.clear(vhost, COMPONENT, name, value)
            except NoSuchVhostError:
                return
            except MetadataError as error:
                logger.warning("shovel not deleted vhost=%r name=%r error=%s", vhost, name, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                logger.info("shovel is done vhost=%r name=%r", vhost, name)
                return

    def _note_status(self, key: Key, fields: dict[str, Any]) -> None:
        status = {"status": fields["state"]}
        if "reason" in fields:
            status["reason"] = fields["reason"]
        self._note("shovel.worker.status", key, status)

    def _note(self, event: str, key: Key, details: dict[str, Any]) -> None:
        self._broker.events.report(event, vhost=key[0], object_name=key[1], details=details)


def _details(name: str, value: object) -> dict[str, Any]:
    """Return what a definition shows of itself, without any password."""
    try:
        definition = parse_shovel(name, value)
    except ShovelError:
        return {}
    source, destination = definition.source, definition.destination
    return {**_side_details("src", source), **_side_details("dest", destination)}


def _side_details(prefix: str, side: Side) -> dict[str, Any]:
    found = {
        "uri": side.uris[0].without_login,
        "protocol": side.protocol,
        "queue": side.queue,
        "exchange": side.exchange,
        "exchange_key": side.routing_key,
    }
    return {f"{prefix}_{name}": value for name, value in found.items() if value is not None}


def _line(what: str, key: Key, **fields: object) -> bytes:
    place = {"vhost": key[0], "name": key[1], **fields}
    return orjson.dumps({what: place}, option=orjson.OPT_APPEND_NEWLINE)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
