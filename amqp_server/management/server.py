"""Runs the management server, on its ports, until the broker ends or says so."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from amqp_server.base.child_reports import report
from amqp_server.management import resources
from amqp_server.management.broker_client import BrokerClient
from amqp_server.management.certificates import Certificates
from amqp_server.management.http.api_index import index_routes
from amqp_server.management.http.exchange import Exchange
from amqp_server.management.http.login import Logins
from amqp_server.management.http.login_checks import LoginChecks
from amqp_server.management.http.parts import Parts
from amqp_server.management.http.routes import RouteTable
from amqp_server.management.http.session_routes import session_routes
from amqp_server.management.http.sockets import BoundedServer
from amqp_server.management.metrics_port import MetricsPort
from amqp_server.management.mirror import Mirror

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from amqp_server.management.settings import ListenerSettings, ManagementSettings

CONNECTIONS_MAX: Final = 10_000
"""HTTP connections that are kept; a small limit of open files lowers it."""
MIRROR_CONNECTIONS: Final = 2
"""Connections to the broker for the mirror."""
OTHER_FILES: Final = 128
"""Descriptors for everything else: control socket, libraries, listeners."""
BACKLOG: Final = 1024
HANDSHAKE_SECONDS_MAX: Final = 10.0


async def serve(settings: ManagementSettings) -> None:
    """Serve HTTP until SIGTERM, or until the broker closes our standard input.

    Args:
        settings: Settings from the broker.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    certificates = None
    if any(each.is_tls for each in settings.listeners):
        certificates = Certificates(settings.tls)
    await _watch_broker(stopping, certificates)
    async with AsyncExitStack() as opened:
        broker = BrokerClient(settings.storage_path)
        opened.push_async_callback(broker.close)
        # One of its own, so that other requests never delay a refresh.
        mirror_broker = BrokerClient(settings.storage_path, MIRROR_CONNECTIONS)
        opened.push_async_callback(mirror_broker.close)
        mirror = Mirror(mirror_broker)
        sampling = asyncio.create_task(mirror.run(), name="samples")
        opened.callback(sampling.cancel)
        parts = Parts(mirror, broker, settings)
        await _listen(parts, certificates, opened)
        report({"serving": True})
        await stopping.wait()


async def _listen(parts: Parts, certificates: Certificates | None, opened: AsyncExitStack) -> None:
    settings = parts.settings
    connections_max = _connections_max()
    api_port = next((each.port for each in settings.listeners if each.kind == "http"), 0)
    checks = LoginChecks(settings.storage_path)
    opened.push_async_callback(checks.close)
    logins = Logins(checks, parts.hosts, api_port)
    routes = [*resources.all_routes(parts), *session_routes(logins)]
    table = RouteTable([*routes, *index_routes(routes)])
    servers = {
        "http": BoundedServer(Exchange(parts, table, logins).serve, connections_max),
        "metrics": BoundedServer(MetricsPort(parts).serve, connections_max),
    }
    context = None
    if certificates is not None:
        context = certificates.context
        watching = asyncio.create_task(certificates.watch(), name="TLS files")
        opened.callback(watching.cancel)
    for server in servers.values():
        opened.push_async_callback(server.shutdown, 1.0)
    for listener in settings.listeners:
        listening = await serve_listener(listener, servers[listener.kind], context)
        opened.callback(listening.close)


async def _watch_broker(stopping: asyncio.Event, certificates: Certificates | None) -> None:
    """Stop when standard input ends: the broker has ended, however it did.

    A line there says that the operator has changed certificates.
    """

    class Watch(asyncio.Protocol):
        def data_received(self, _octets: bytes) -> None:
            if certificates is not None:
                certificates.reload()

        def connection_lost(self, _error: Exception | None) -> None:
            stopping.set()

    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(Watch, sys.stdin)


def _connections_max() -> int:
    """Raise the limit of open files as far as allowed; return how many connections fit in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(16, min(CONNECTIONS_MAX, soft - OTHER_FILES))


async def serve_listener(
    listener: ListenerSettings,
    make_protocol: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext | None,
) -> asyncio.Server:
    """Accept clients on a socket that the broker has bound.

    Args:
        listener: The socket.
        make_protocol: Returns the protocol of one connection.
        context: What handshakes use, for a socket with TLS.
    """
    bound = socket.socket(fileno=listener.descriptor)
    bound.setblocking(False)
    return await asyncio.get_running_loop().create_server(
        make_protocol,
        sock=bound,
        backlog=BACKLOG,
        ssl=context if listener.is_tls else None,
        ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX if listener.is_tls else None,
    )
