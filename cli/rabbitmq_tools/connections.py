"""Verbs of connections, channels and consumers."""

from __future__ import annotations

import re
import time

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.objects import shown
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.rows import rows_of
from cli.rabbitmq_tools.values import Atom, Pid, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cli.rabbitmq_tools.call import Call

    Row = dict[str, Any]
    Columns = dict[str, Callable[[Row], object]]

_PID = re.compile(r"<[^<>]*\.\d+\.\d+\.\d+>")


def _field(name: str, absent: object = "") -> Callable[[Row], object]:
    def value(row: Row) -> object:
        found = row.get(name)
        return absent if found is None else found

    return value


def _fields(*names: str, absent: object = "") -> Columns:
    return {name: _field(name, absent) for name in names}


_CONNECTION_COLUMNS: Columns = {
    **_fields("pid", "name", "port", "host", "peer_port", "peer_host"),
    "ssl": _field("ssl", absent=False),
    **_fields("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"),
    **_fields("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
    "state": lambda row: Atom(row["state"]),
    "channels": _field("channels", absent=0),
    "protocol": lambda _row: Atom("{0,9,1}"),
    **_fields("auth_mechanism", "user", "vhost", "timeout", "frame_max", "channel_max"),
    "client_properties": lambda row: Table(row.get("client_properties") or {}),
    "connection_name": _field("user_provided_name"),
    "user_provided_name": _field("user_provided_name"),
    **_fields("recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend", absent=0),
    "connected_at": _field("connected_at"),
}
_CHANNEL_COLUMNS: Columns = {
    **_fields("pid", "connection", "name", "number", "user", "vhost", "transactional", "confirm"),
    **_fields("consumer_count", "messages_unacknowledged", "messages_uncommitted", absent=0),
    **_fields("acks_uncommitted", "messages_unconfirmed", "prefetch_count", absent=0),
    "global_prefetch_count": _field("global_prefetch_count", absent=0),
}
_CONSUMER_COLUMNS: Columns = {
    "queue_name": _field("queue"),
    "channel_pid": _field("channel_pid"),
    **_fields("consumer_tag", "ack_required", "prefetch_count", "active"),
    "activity_status": lambda row: Atom(row["activity_status"]),
    "arguments": lambda row: Table(row["arguments"]),
}


def list_connections(call: Call) -> Rows:
    """List the connections of all virtual hosts."""
    columns = call.columns(tuple(_CONNECTION_COLUMNS), ("user", "peer_host", "peer_port", "state"))
    call.banner("Listing connections ...")
    return shown(_CONNECTION_COLUMNS, columns, rows_of(call, "connections"))


def list_channels(call: Call) -> Rows:
    """List the channels of all virtual hosts, or of one."""
    default = ("pid", "user", "consumer_count", "messages_unacknowledged")
    columns = call.columns(tuple(_CHANNEL_COLUMNS), default)
    call.banner("Listing channels ...")
    rows = rows_of(call, "channels")
    for row in rows:
        row["name"] = f"{row['connection']} ({row['number']})"
    if "vhost" in call.options:
        rows = [row for row in rows if row["vhost"] == call.vhost]
    return shown(_CHANNEL_COLUMNS, columns, rows)


def list_consumers(call: Call) -> Rows:
    """List the consumers of a virtual host."""
    default = [name for name in _CONSUMER_COLUMNS if name != "activity_status"]
    columns = call.columns(tuple(_CONSUMER_COLUMNS), default)
    call.banner(f"Listing consumers in vhost {call.vhost} ...")
    rows = [row for row in rows_of(call, "consumers") if row["vhost"] == call.vhost]
    if "channel_pid" in columns:
        channels = {(row["connection"], row["number"]): row for row in rows_of(call, "channels")}
        for row in rows:
            channel = channels.get((row["connection"], row["channel"]), {})
            row["channel_pid"] = channel.get("pid", Pid(""))
    return shown(_CONSUMER_COLUMNS, columns, rows)


def close_connection(call: Call) -> None:
    """Close one connection, named as in the column `pid` or `name`."""
    pid, reason = call.arguments
    call.banner(f"Closing connection {pid}, reason: {reason}...")
    if not _PID.fullmatch(pid) and " -> " not in pid:
        raise ToolFailedError(UNAVAILABLE, f'Error:\n{{:invalid_pid_syntax, "{pid}"}}')
    found = [row for row in rows_of(call, "connections") if pid in (row["pid"], row["name"])]
    # As in RabbitMQ it is no error if the connection is gone already.
    if found:
        _close(call, found[0], reason)


def close_all_connections(call: Call) -> Message | None:
    """Close all connections, or those of a virtual host."""
    reason = call.arguments[0]
    rows = rows_of(call, "connections")
    if "global" in call.options:
        call.banner(f"Closing all connections on node {call.node} (limit: 0), reason: {reason}...")
    else:
        call.banner(f"Closing all connections in vhost {call.vhost}, reason: {reason}...")
        rows = [row for row in rows if row["vhost"] == call.vhost]
    limit = int(call.options.get("limit", "0") or 0)
    delay_seconds = int(call.options.get("per-connection-delay", "0") or 0) / 1000
    closed = 0
    for row in rows[: limit or len(rows)]:
        closed += _close(call, row, reason)
        if delay_seconds:
            time.sleep(delay_seconds)
    return Message(f"Closed {closed} connections")


def close_all_user_connections(call: Call) -> None:
    """Close all connections of a user."""
    user, reason = call.arguments
    call.banner(f"Closing connections of user {user}, reason: {reason}...")
    call.ask("connections.close_user", user=user, reason=reason)


def _close(call: Call, row: Row, reason: str) -> bool:
    """Close a connection; return False if it is gone."""
    try:
        call.ask("connections.close", name=row["name"], reason=reason)
    except RefusedError as refused:
        if refused.kind != "not_found":
            raise
        return False
    return True
