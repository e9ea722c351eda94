"""Verbs of the whole server."""

from __future__ import annotations

import os
import re
import signal
import time

from amqp_server import __version__
from cli.rabbitmq_tools.asking import RefusedError, Server
from cli.rabbitmq_tools.failures import (
    DATA,
    SOFTWARE,
    UNAVAILABLE,
    USAGE,
    ToolFailedError,
    UsageError,
)
from cli.rabbitmq_tools.health import alarm_text, listener_text, listener_value
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.rows import rows_and_state
from cli.rabbitmq_tools.values import Atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_WAIT_SECONDS = 0.1
_FLAGS = (
    "classic_mirrored_queue_version",
    "direct_exchange_routing_v2",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "feature_flags_v2",
    "implicit_default_bindings",
    "listener_records_in_ets",
    "maintenance_mode_status",
    "quorum_queue",
    "stream_queue",
    "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer",
    "tracking_records_in_ets",
    "user_limits",
    "virtual_host_metadata",
)
"""Feature flags of that version; all of them are on."""
_ALARM = re.compile(
    r"rabbit_alarm:(set|clear)_alarm\(\{+resource_limit,\s*(memory|disk),\s*[^}]*\}"
    r"(?:,\s*\[\]\})?\)\.?"
)


def version(_call: Call) -> Message:
    """Show the version of the tools."""
    return Message(__version__)


def await_startup(call: Call) -> None:
    """Wait until the server answers."""
    _await(call)


def wait(call: Call) -> None:
    """Wait until the server answers; the file with the process id is not needed."""
    call.banner(f"Waiting for node {call.node} ...")
    _await(call)


def _await(call: Call) -> None:
    until = time.monotonic() + call.seconds_max
    while True:
        server = Server(call.server.storage_path, call.node, call.seconds_max)
        try:
            server.ask("probe")
        except ToolFailedError:
            if time.monotonic() > until:
                raise
            time.sleep(_WAIT_SECONDS)
        else:
            server.close()
            return


def status(call: Call) -> Message:
    """Show the state of the server."""
    call.banner(f"Status of node {call.node} ...")
    found = {**call.ask("status"), **call.ask("probe")}
    node = rows_and_state(call)[1]["node"]
    listeners = found["listeners"]
    value: dict[str, Any] = {
        "os": os.uname().sysname,
        "pid": found["pid"],
        "uptime": int(found["uptime_seconds"]),
        "is_under_maintenance": found["are_listeners_suspended"],
        "processes": {"limit": 1048576, "used": node["proc_used"]},
        "run_queue": node["run_queue"],
        "erlang_version": "not used: amqp-server runs on Python",
        "rabbitmq_version": found["compatible_version"],
        "product_name": found["product"],
        "product_version": found["version"],
        "release_series_support_status": "supported",
        "data_directory": os.path.abspath(call.server.storage_path),  # noqa: PTH100
        "active_plugins": [],
        "enabled_plugin_file": "",
        "config_files": [],
        "log_files": [],
        "alarms": found["alarms"],
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "file_descriptors": {
            "total_limit": node["fd_total"],
            "total_used": node["fd_used"],
            "sockets_limit": node["fd_total"],
            "sockets_used": node["sockets_used"],
        },
        "memory": {"total": {"rss": node["mem_used"], "allocated": node["mem_used"]}},
        "vm_memory_calculation_strategy": "rss",
        "vm_memory_high_watermark_limit": node["mem_limit"],
        "vm_memory_high_watermark_setting": {"absolute": node["mem_limit"]},
        "totals": {
            "connection_count": found["connections"],
            "queue_count": found["queues"],
            "virtual_host_count": found["vhosts"],
        },
        "listeners": [listener_value(call, each) for each in listeners],
    }
    return Message(_status_text(call, value, listeners), value)


def _status_text(call: Call, value: dict[str, Any], listeners: list[dict[str, Any]]) -> str:
    descriptors = value["file_descriptors"]
    sections = {
        "Runtime": (
            f"OS PID: {value['pid']}",
            f"OS: {value['os']}",
            f"Uptime (seconds): {value['uptime']}",
            f"Is under maintenance?: {str(value['is_under_maintenance']).lower()}",
            f"RabbitMQ version: {value['rabbitmq_version']}",
            f"Product name: {value['product_name']}",
            f"Product version: {value['product_version']}",
            f"Node name: {call.node}",
        ),
        "Plugins": ("(none)",),
        "Data directory": (f"Node data directory: {value['data_directory']}",),
        "Alarms": tuple(alarm_text(call, each) for each in value["alarms"]) or ("(none)",),
        "Memory": (
            f"Total memory used: {value['memory']['total']['rss'] / 2**30:.4f} gb",
            "Calculation strategy: rss",
            f"Memory high watermark: {value['vm_memory_high_watermark_limit'] / 2**30:.4f} gb",
        ),
        "File Descriptors": (
            f"Total: {descriptors['total_used']}, limit: {descriptors['total_limit']}",
            f"Sockets: {descriptors['sockets_used']}, limit: {descriptors['sockets_limit']}",
        ),
        "Free Disk Space": (
            f"Low free disk space watermark: {value['disk_free_limit'] / 2**30:.4f} gb",
            f"Free disk space: {value['disk_free'] / 2**30:.4f} gb",
        ),
        "Totals": (
            f"Connection count: {value['totals']['connection_count']}",
            f"Queue count: {value['totals']['queue_count']}",
            f"Virtual host count: {value['totals']['virtual_host_count']}",
        ),
        "Listeners": tuple(map(listener_text, listeners)),
    }
    return "\n".join(
        f"\x1b[1m{title}\x1b[0m\n\n" + "\n".join(each) + "\n" for title, each in sections.items()
    )


def cluster_status(call: Call) -> Message:
    """Show the cluster, which is this server."""
    call.banner(f"Cluster status of node {call.node} ...")
    found = {**call.ask("status"), **call.ask("probe")}
    after = rows_and_state(call)[1]
    name = after["totals"]["cluster_name"] or call.node
    listeners = found["listeners"]
    maintenance = f"{'' if found['are_listeners_suspended'] else 'not '}under maintenance"
    versions = {"erlang_version": "", "rabbitmq_name": "RabbitMQ"}
    value: dict[str, Any] = {
        "cluster_name": name,
        "disk_nodes": [call.node],
        "ram_nodes": [],
        "running_nodes": [call.node],
        "versions": {call.node: {**versions, "rabbitmq_version": found["compatible_version"]}},
        "alarms": found["alarms"],
        "partitions": {},
        "listeners": {call.node: [listener_value(call, each) for each in listeners]},
        "feature_flags": [{"name": name, "state": "enabled"} for name in _FLAGS],
        "maintenance_status": {call.node: maintenance},
    }
    sections = {
        "Disk Nodes": (call.node,),
        "Running Nodes": (call.node,),
        "Versions": (f"{call.node}: RabbitMQ {found['compatible_version']}",),
        "Maintenance status": (f"Node: {call.node}, status: {maintenance}",),
        "Alarms": tuple(alarm_text(call, each) for each in found["alarms"]) or ("(none)",),
        "Network Partitions": ("(none)",),
        "Listeners": tuple(f"Node: {call.node}, i{listener_text(each)[1:]}" for each in listeners),
        "Feature flags": tuple(f"Flag: {flag}, state: enabled" for flag in _FLAGS),
    }
    text = f"\x1b[1mBasics\x1b[0m\n\nCluster name: {name}\n\n" + "\n".join(
        f"\x1b[1m{title}\x1b[0m\n\n" + "\n".join(each) + "\n" for title, each in sections.items()
    )
    return Message(text, value)


def list_feature_flags(call: Call) -> Rows:
    """List the feature flags of the compatible version."""
    columns = call.columns(("name", "state", "stability", "provided_by", "desc"), ("name", "state"))
    call.banner("Listing feature flags ...")
    values = {
        "state": Atom("enabled"),
        "stability": Atom("stable"),
        "provided_by": Atom("rabbit"),
        "desc": "",
    }
    rows = [[{**values, "name": Atom(flag)}[name] for name in columns] for flag in _FLAGS]
    return Rows(columns, rows)


def enable_feature_flag(call: Call) -> None:
    """Accept a feature flag of the compatible version: all are on."""
    name = call.arguments[0]
    if name == "all":
        call.banner("Enabling all feature flags ...")
        return
    call.banner(f'Enabling feature flag "{name}" ...')
    if name not in _FLAGS:
        text = f"This feature flag is not supported by node {call.node}"
        raise ToolFailedError(USAGE, text)


def stop(call: Call) -> None:
    """Stop the server, and wait until it has ended."""
    call.banner(f"Stopping and halting node {call.node} ...")
    _end(call)


def shutdown(call: Call) -> None:
    """Stop the server, and wait until it has ended."""
    call.banner(f"Shutting down RabbitMQ node {call.node} running at PID {_end(call)}")


def _end(call: Call) -> int:
    pid = int(call.ask("probe")["pid"])
    try:
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + call.seconds_max
        while time.monotonic() < until:
            time.sleep(_WAIT_SECONDS)
            os.kill(pid, 0)
    except ProcessLookupError:
        return pid
    except PermissionError as error:
        text = f"process {pid} of the server is another user's"
        raise ToolFailedError(UNAVAILABLE, text) from error
    raise ToolFailedError(UNAVAILABLE, f"process {pid} of the server did not end in time")


def stop_app(call: Call) -> None:
    """Close all connections, and let no client connect until `start_app`."""
    call.banner(f"Stopping rabbit application on node {call.node} ...")
    call.ask("clients.suspend", reason="shutdown")


def start_app(call: Call) -> None:
    """Let clients connect again."""
    call.banner(f"Starting node {call.node} ...")
    call.ask("clients.resume")


def suspend_listeners(call: Call) -> None:
    """Let no more clients connect; those that have connected stay."""
    call.banner(
        f"Will suspend client connection listeners on node {call.node}. The node will no longer "
        "accept client connections!"
    )
    call.ask("listeners.suspend", reason="")


def resume_listeners(call: Call) -> None:
    """Let clients connect again after `suspend_listeners`."""
    call.banner(
        f"Will resume client connection listeners on node {call.node}. The node will now accept "
        "client connections"
    )
    call.ask("listeners.resume")


def await_online_nodes(call: Call) -> None:
    """Fail for more than one node: no other one ever joins."""
    count = call.arguments[0]
    if not count.isdecimal() or int(count) == 0:
        raise UsageError("Bad argument: Argument must be a positive integer", DATA)
    seconds = call.options.get("timeout", "300")
    call.banner(
        f"Will wait for at least {count} nodes to join the cluster of {call.node}. "
        f"Timeout: {seconds} seconds."
    )
    call.ask("probe")
    if int(count) > 1:
        text = "Error: timed out while waiting. Not enough nodes joined"
        raise ToolFailedError(SOFTWARE, f"{text} {call.node}'s cluster.")


def rotate_logs(_call: Call) -> None:
    """Refuse, as RabbitMQ does: what reads standard error rotates the log."""
    text = "This command does not rotate logs anymore [deprecated]"
    raise ToolFailedError(UNAVAILABLE, text)


def force_gc(call: Call) -> None:
    """Do nothing: the server frees memory by itself."""
    call.banner(f"Will ask all processes on node {call.node} to schedule a full sweep GC")
    call.ask("probe")


def eval(call: Call) -> Message:  # noqa: A001 - named as the verb
    """Hold or release an alarm: of Erlang no other expression is understood."""
    expression = call.arguments[0]
    found = _ALARM.fullmatch(expression.strip())
    if found is None:
        text = (
            "only rabbit_alarm:set_alarm and rabbit_alarm:clear_alarm of memory and disk can be "
            "evaluated: this server does not run on Erlang"
        )
        raise ToolFailedError(USAGE, text)
    try:
        call.ask("alarms.hold", resource=found[2], is_on=found[1] == "set")
    except RefusedError as refused:
        raise refused.failure() from refused
    return Message("ok")
