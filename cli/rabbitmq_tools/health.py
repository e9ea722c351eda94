"""Checks of health. Containers call them every few seconds."""

from __future__ import annotations

import socket

from cli.rabbitmq_tools.failures import DATA, UNAVAILABLE, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import Message
from cli.rabbitmq_tools.values import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_CONNECT_SECONDS_MAX = 5.0
_UNITS = {"bytes": 1, "mb": 10**6, "gb": 10**9}
_PURPOSES = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
}


def ping(call: Call) -> Message:
    """Check that the server answers."""
    call.banner(
        f"Will ping {call.node}. This only checks if the OS process is running and registered "
        f"with epmd. Timeout: {call.seconds_max * 1000:.0f} ms."
    )
    _probe(call)
    return _passed("Ping succeeded")


def check_running(call: Call) -> Message:
    """Check that the server serves clients."""
    call.banner(f"Checking if RabbitMQ is running on node {call.node} ...")
    text, is_running = _running(call)
    if not is_running:
        raise _failed(call, text, has_prefix=True)
    return _passed(text)


def is_running(call: Call) -> Message:
    """Say whether the server serves clients."""
    call.banner(f"Asking node {call.node} for its status ...")
    text, is_it = _running(call)
    return Message(text, {"message": text, "result": is_it})


def is_booting(call: Call) -> Message:
    """Say that the server is not starting: it answers nothing while it does."""
    call.banner(f"Asking node {call.node} for its boot status ...")
    about = f"RabbitMQ on node {call.node} is fully booted (check with is_running), stopped or has"
    _probe(call)
    text = f"{about} not started booting yet"
    return Message(text, {"message": text, "result": False})


def alarms(call: Call) -> Message:
    """Show the alarms."""
    call.banner(f"Asking node {call.node} to report any known resource alarms ...")
    found = _alarms(call)
    text = "\n".join(found) or f"Node {call.node} reported no alarms, local or clusterwide"
    return Message(text, {"alarms": found, "node": call.node, "result": "ok"})


def check_alarms(call: Call) -> Message:
    """Check that no alarm is on."""
    call.banner(f"Asking node {call.node} to report any local resource alarms ...")
    return _without_alarms(call, "clusterwide", has_prefix=False)


def check_local_alarms(call: Call) -> Message:
    """Check that no alarm is on."""
    call.banner(f"Asking node {call.node} to report any local resource alarms ...")
    return _without_alarms(call, "local", has_prefix=True)


def check_port_connectivity(call: Call) -> Message:
    """Check that every listener takes a connection."""
    call.banner(f"Testing TCP connections to all active listeners on node {call.node} ...")
    found = _probe(call)["listeners"]
    failed = [each for each in found if not _connects(call.options.get("address"), each)]
    if failed:
        lines = "\n".join(map(listener_text, failed))
        raise _failed(call, f"Connection to ports of the following listeners failed: {lines}")
    ports = ", ".join(str(each["port"]) for each in found)
    return _passed(f"Successfully connected to ports {ports} on node {call.node}.")


def check_port_listener(call: Call) -> Message:
    """Check that the server listens on a port."""
    port = call.arguments[0]
    if not port.isdecimal():
        raise UsageError("Bad argument: Argument must be a positive integer", DATA)
    call.banner(f"Asking node {call.node} if there's an active listener on port {port} ...")
    ports = [str(each["port"]) for each in _probe(call)["listeners"]]
    if port not in ports:
        raise _failed(
            call,
            f"No listener for port {port} is active on node {call.node}. Found listeners that use "
            f"the following ports: {', '.join(ports)}",
        )
    return _passed(f"A listener for port {port} is running on node {call.node}.")


def check_protocol_listener(call: Call) -> Message:
    """Check that the server listens for a protocol."""
    protocol = call.arguments[0]
    asked = f"if there's an active listener for protocol {protocol} ..."
    call.banner(f"Asking node {call.node} {asked}")
    protocols = sorted({each["protocol"] for each in _probe(call)["listeners"]})
    known = {"amqps": "amqp/ssl", "amqp091": "amqp", "amqp0-9-1": "amqp"}.get(protocol, protocol)
    if known not in protocols:
        raise _failed(
            call,
            f"No listener for protocol {protocol} is active on node {call.node}. Found listeners "
            f"for the following protocols: {', '.join(protocols)}",
            has_prefix=True,
        )
    return _passed(f"A listener for protocol {protocol} is running on node {call.node}.")


def check_virtual_hosts(call: Call) -> Message:
    """Check that the start has recovered all virtual hosts."""
    call.banner(f"Checking if all vhosts are running on node {call.node} ...")
    damaged = sorted(_probe(call)["damaged_vhosts"])
    if damaged:
        names = "\n".join(damaged)
        raise _failed(call, f"Some virtual hosts on node {call.node} are damaged:\n{names}")
    return Message(f"Node {call.node} reported all vhosts as running", {"result": "ok"})


def listeners(call: Call) -> Message:
    """Show on which addresses the server listens."""
    call.banner(f"Asking node {call.node} to report its protocol listeners ...")
    found = _probe(call)["listeners"]
    shown = [listener_value(call, each) for each in found]
    value = {"listeners": shown, "node": call.node, "result": "ok"}
    return Message("\n".join(map(listener_text, found)), value)


def server_version(call: Call) -> Message:
    """Show the version of RabbitMQ that the server is compatible with."""
    call.banner(f"Asking node {call.node} for its RabbitMQ version...")
    return Message(_probe(call)["compatible_version"])


def node_health_check(call: Call) -> Message:
    """Check that the server answers: what RabbitMQ does not advise any more."""
    call.banner(
        "This command is DEPRECATED and will be removed in a future version.\n"
        "It performs intrusive, opinionated health checks and requires a fully booted node.\n"
        "Use one of the options covered in "
        "https://www.rabbitmq.com/monitoring.html#health-checks instead.\n"
        f"Timeout: {call.options.get('timeout', '70')} seconds ...\n"
        f"Checking health of node {call.node} ..."
    )
    if found := _alarms(call):
        text = "\n".join(found)
        raise _failed(call, f"Health check failed: {text}", has_prefix=True)
    return _passed("Health check passed")


def memory_breakdown(call: Call) -> Message:
    """Show the memory of the process, which has no parts that are counted apart."""
    unit = call.options.get("unit", "gb")
    if unit not in _UNITS:
        known = ", ".join(_UNITS)
        raise UsageError(f"\"unit '{unit}' is not supported. Please use one of: {known}\"")
    call.banner(f"Reporting memory breakdown on node {call.node}...")
    from cli.rabbitmq_tools.rows import rows_and_state

    used = rows_and_state(call)[1]["node"]["mem_used"]
    shown = used if unit == "bytes" else round(used / _UNITS[unit], 4)
    value = {"process": {"bytes": used, "percentage": 100.0}}
    return Message(f"process: {shown} {unit} (100.0%)", value)


def discover_peers(call: Call) -> Message:
    """Find nobody: there is no cluster."""
    call.banner("Discovering peers nodes ...")
    call.ask("probe")
    return _passed("No peers discovered")


def listener_text(each: dict[str, Any]) -> str:
    """Return a listener in one line."""
    host = f"[{each['host']}]" if ":" in each["host"] else each["host"]
    protocol = each["protocol"]
    purpose = _PURPOSES.get(protocol, protocol)
    return f"Interface: {host}, port: {each['port']}, protocol: {protocol}, purpose: {purpose}"


def listener_value(call: Call, each: dict[str, Any]) -> dict[str, Any]:
    """Return a listener for programs."""
    return {
        "interface": each["host"],
        "node": call.node,
        "port": each["port"],
        "protocol": each["protocol"],
        "purpose": _PURPOSES.get(each["protocol"], each["protocol"]),
    }


def alarm_text(call: Call, resource: str) -> str:
    """Return an alarm in RabbitMQ's words."""
    kinds = {"memory": "Memory", "disk": "Free disk space", "disk_stall": "Disk stall"}
    kind = kinds.get(resource, resource)
    return f"{kind} alarm on node {call.node}"


def _probe(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = call.ask("probe")
    return found


def _running(call: Call) -> tuple[str, bool]:
    about = f"RabbitMQ on node {call.node} is"
    if _probe(call)["is_suspended"]:
        return f"{about} not running or has not fully booted yet (check with is_booting)", False
    return f"{about} fully booted and running", True


def _alarms(call: Call) -> list[str]:
    return [alarm_text(call, each) for each in _probe(call)["alarms"]]


def _without_alarms(call: Call, where: str, *, has_prefix: bool) -> Message:
    found = _alarms(call)
    if found and call.formatter == "json":
        message = f"Node {call.node} reported alarms"
        value = {"global": [], "local": found, "message": message, "result": "error"}
        raise ToolFailedError(UNAVAILABLE, as_json(value), has_prefix=False)
    if found:
        raise ToolFailedError(UNAVAILABLE, "\n".join(found), has_prefix=has_prefix)
    kind = "local or clusterwide" if where == "clusterwide" else "local"
    text = f"Node {call.node} reported no {kind} alarms"
    if where == "clusterwide":
        text = f"Node {call.node} reported no alarms, local or clusterwide"
    return Message(text, {"result": "ok"})


def _connects(address: str | None, each: dict[str, Any]) -> bool:
    host = address or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(each["host"], each["host"])  # noqa: S104
    try:
        with socket.create_connection((host, each["port"]), _CONNECT_SECONDS_MAX):
            return True
    except OSError:
        return False


def _passed(text: str) -> Message:
    return Message(text, {"message": text})


def _failed(call: Call, text: str, *, has_prefix: bool = False) -> ToolFailedError:
    if call.formatter == "json":
        text = as_json({"message": text, "result": "error"})
        has_prefix = False
    return ToolFailedError(UNAVAILABLE, text, has_prefix=has_prefix)
