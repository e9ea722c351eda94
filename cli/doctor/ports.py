"""The ports of the settings: can a server have them, and who has them."""

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.children.management_sockets import ManagementSockets, bind_management
from amqp_server.connections.client_listeners import ClientListeners
from cli.display import shown
from cli.doctor.finding import Finding, error, ok, warning
from metadata.double_lock import DoubleLock

SUBJECT: Final = "ports"
_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_PORT: Final = re.compile(r":(\d+)\b")


def check_ports(config: ServerConfig) -> Iterator[Finding]:
    """Yield whether a server with these settings could listen now; binds them for a moment."""
    running = DoubleLock.of_server(config.storage_path).holder()
    if running is not None:
        yield ok(SUBJECT, f"a server runs on this directory, process {running}, and has its own")
        return
    logging.disable(logging.CRITICAL)
    try:
        yield from asyncio.run(_check(config))
    finally:
        logging.disable(logging.NOTSET)


async def _check(config: ServerConfig) -> list[Finding]:
    try:
        bound = await ClientListeners.bind(config)
    except StartupError as problem:
        return [error(SUBJECT, _with_holder(problem.message), "end it, or choose another --port")]
    try:
        sockets = await bind_management(config)
    except StartupError as problem:
        return [error(SUBJECT, problem.message, "choose another --management-port")]
    finally:
        bound.close()
    try:
        return _management(config, sockets)
    finally:
        sockets.close()


def _management(config: ServerConfig, sockets: ManagementSockets) -> list[Finding]:
    plain = [str(port) for _, port in config.plain_addresses]
    with_tls = [f"{port} (TLS)" for _, port in config.tls_addresses]
    others = [str(each.port) for each in sockets.sockets]
    every = ", ".join(dict.fromkeys([*plain, *with_tls, *others]))
    found = [
        warning(
            SUBJECT,
            _with_holder(f"{each.purpose} cannot listen on {each.address}: {each.reason}"),
            f"end it, or choose another port with {each.option} (0: none); AMQP works without it",
        )
        for each in sockets.waiting
    ]
    return [ok(SUBJECT, f"free: {every}"), *found]


def _with_holder(message: str) -> str:
    """Return a message about a port with the program that listens on it, if that can be found."""
    ports = _PORT.findall(message)
    holder = holder_of(int(ports[0])) if ports else None
    return message if holder is None else f"{message} ({holder})"


def holder_of(port: int, proc: Path = _PROC) -> str | None:
    """Return number and name of the process that listens on a TCP port; None if nobody tells.

    Args:
        port: The port, on any address.
        proc: Where the kernel shows processes and sockets.
    """
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not wanted:
        return None
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                if str(descriptor.readlink()) in wanted:
                    name = (process / "comm").read_text(errors="replace").strip()
                    return f"process {process.name}, {shown(name)}"
        except OSError:
            # It has ended, or belongs to another user.
            continue
    return "a process of another user"


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
