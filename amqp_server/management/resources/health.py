"""Health checks: `/api/health/checks`, and the older ones."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    Answer,
    AnyAnswer,
    bad_request,
    not_authorised,
    not_found,
    ok,
)
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.overview import listeners

if TYPE_CHECKING:
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

_OK: Final[dict[str, Any]] = {"status": "ok"}
_DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
_UNITS: Final = "Time unit not recognised. Supported units: days, weeks, months, years."
_PROTOCOLS: Final = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
    "amqp-ssl": "amqp/ssl",
}
_ALWAYS_FINE: Final = (
    "metadata-store/initialized",
    "metadata-store/initialized/with-data",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
    "quorum-queues-without-elected-leaders/vhost/{vhost}",
    "quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
)
_WITHOUT_LOGIN: Final = (
    "is-in-service",
    "ready-to-serve-clients",
    "below-node-connection-limit",
    "reached-target-cluster-size",
)
_PORT_MAX: Final = 65535
_NUMBER_MAX: Final = 1_000_000


def failed(reason: str, **more: object) -> Answer:
    """Return the answer 503 of a check that has failed."""
    value = {"status": "failed", "reason": reason, **more}
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, value)


class _Checks:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings

    async def alarms(self, _call: Call) -> AnyAnswer:
        return await self._alarms("There are alarms in effect in the cluster")

    async def local_alarms(self, _call: Call) -> AnyAnswer:
        return await self._alarms("There are alarms in effect on the node")

    async def _alarms(self, reason: str) -> AnyAnswer:
        # Not the mirror: the broker may need a thread for its figures, and all may wait for a disk.
        low = (await self._parts.broker.call("probe"))["alarms"]
        found = [{"node": self._settings.node_name, "resource": resource} for resource in low]
        return failed(reason, alarms=found) if found else ok(_OK)

    async def disk(self, _call: Call) -> AnyAnswer:
        """Check that the broker answers, and that its disk does."""
        operation = (await self._parts.broker.call("probe"))["disk_stall"]
        return failed(f"The disk does not answer: {operation}") if operation else ok(_OK)

    async def virtual_hosts(self, _call: Call) -> AnyAnswer:
        """Check that the start could read all definitions."""
        found = (await self._parts.broker.call("probe"))["damage"]
        if not found:
            return ok(_OK)
        return failed(f"Some definitions are damaged: {'; '.join(found)}", damage=found)

    async def port(self, call: Call) -> AnyAnswer:
        text = call.segments["port"]
        port = int(text) if text.isdecimal() and len(text) <= len(str(_PORT_MAX)) else 0
        if not 0 < port <= _PORT_MAX:
            raise bad_request("Invalid port")
        ports = sorted({each["port"] for each in listeners(self._settings)})
        if port in ports:
            return ok({**_OK, "port": port})
        return failed("No active listener", missing=port, ports=ports)

    async def protocol(self, call: Call) -> AnyAnswer:
        wanted = [_PROTOCOLS.get(each, each) for each in call.segments["protocols"].split(",")]
        found = sorted({str(each["protocol"]) for each in listeners(self._settings)})
        missing = [each for each in wanted if each not in found]
        if not missing:
            return ok({**_OK, "protocol": ",".join(wanted)})
        return failed("No active listener", missing=",".join(missing), protocols=found)

    async def certificates(self, call: Call) -> AnyAnswer:
        number, unit = call.segments["within"], call.segments["unit"]
        if unit not in _DAYS:
            raise bad_request(_UNITS)
        if not number.isdecimal() or not 0 < int(number[:9]) <= _NUMBER_MAX:
            raise bad_request("Invalid expiration value.")
        until = datetime.now(UTC) + timedelta(days=min(int(number) * _DAYS[unit], 36_500))
        files = self._settings.tls.certificates
        ends = await asyncio.to_thread(lambda: [(name, _end_of(name)) for name in files])
        expired = [
            {
                "certfile": name,
                "certfile_expires_on": [f"{end:%Y-%m-%d} {end.hour}:{end:%M:%S}"],
                "cacertfile": "",
                "cacertfile_expires_on": [],
                "interface": each["ip_address"],
                "node": self._settings.node_name,
                "port": each["port"],
                "protocol": each["protocol"],
            }
            for name, end in ends
            if end is not None and end <= until
            for each in listeners(self._settings)
            if each["protocol"] in ("amqp/ssl", "https")
        ]
        return failed("Certificates expiring", expired=expired) if expired else ok(_OK)

    async def fine(self, _call: Call) -> AnyAnswer:
        return ok(_OK)

    async def single_node(self, _call: Call) -> AnyAnswer:
        return ok({**_OK, "reason": "single node cluster"})

    async def node(self, call: Call) -> AnyAnswer:
        if call.segments.get("node", self._settings.node_name) != self._settings.node_name:
            raise not_found()
        return ok(_OK)

    async def ready(self, _call: Call) -> AnyAnswer:
        # The broker answers: it has recovered, and it listens.
        await self._parts.mirror.refresh()
        return ok(_OK)

    async def aliveness(self, call: Call) -> AnyAnswer:
        """Check that a user can use a virtual host: its permissions let it declare a queue."""
        vhost = call.segments["vhost"]
        if vhost not in call.user.vhosts:
            raise not_authorised("Access refused.")
        arguments = {"vhost": vhost, "name": "amq.direct", "type": "direct"}
        try:
            await self._parts.broker.call(
                "exchanges.declare",
                {
                    **arguments,
                    "durable": True,
                    "auto_delete": False,
                    "internal": False,
                    "arguments": {},
                },
                actor=call.actor,
            )
        except BrokerRefused as refused:
            # The broker has looked, and refused: the virtual host is alive.
            if refused.kind != "refused":
                return failed(refused.reason)
        return ok(_OK)


def _end_of(path: str) -> datetime | None:
    """Return until when a certificate is valid; None if its file cannot be read."""
    try:
        # As the broker's own TLS does: the only decoder of the standard library for this.
        found = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(found["notAfter"]), UTC)
    except (ssl.SSLError, OSError, ValueError):
        return None


def routes(parts: Parts) -> list[Route]:
    """Return the routes of the health checks."""
    checks = _Checks(parts)
    base = "/api/health/checks"
    found = [
        Route("GET", f"{base}/alarms", checks.alarms),
        Route("GET", f"{base}/local-alarms", checks.local_alarms),
        Route("GET", f"{base}/virtual-hosts", checks.virtual_hosts, checks_vhost=False),
        Route("GET", f"{base}/port-listener/{{port}}", checks.port),
        Route("GET", f"{base}/protocol-listener/{{protocols}}", checks.protocol),
        Route("GET", f"{base}/certificate-expiration/{{within}}/{{unit}}", checks.certificates),
        Route("GET", f"{base}/node-is-quorum-critical", checks.single_node),
        Route("GET", f"{base}/node-is-mirror-sync-critical", checks.single_node),
        Route("GET", "/api/healthchecks/node", checks.node),
        Route("GET", "/api/healthchecks/node/{node}", checks.node),
        Route("GET", "/api/aliveness-test/{vhost}", checks.aliveness),
    ]
    # Without a login: an orchestrator that asks whether to restart the broker has none.
    found.append(Route("GET", f"{base}/disk", checks.disk, requires=None))
    found += [
        Route("GET", f"{base}/{name}", checks.fine, checks_vhost=False) for name in _ALWAYS_FINE
    ]
    found += [
        Route("GET", f"{base}/{name}", checks.ready, requires=None) for name in _WITHOUT_LOGIN
    ]
    return found
