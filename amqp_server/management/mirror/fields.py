"""Makes the fields that are shown of an object from its attributes and values in a report."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, Any]
    Fields = dict[str, Any]

STATS: Final = (
    "publish",
    "confirm",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "deliver_get",
    "redeliver",
    "ack",
    "get_empty",
    "return_unroutable",
    "drop_unroutable",
    "disk_reads",
    "disk_writes",
    "publish_in",
    "publish_out",
    "publish_refused",
)
"""Names of the counters in `message_stats`."""
DEPTH_NAMES: Final = ("messages", "messages_ready", "messages_unacknowledged")
"""Numbers of messages that are summed for virtual hosts and the whole server."""
_DELIVERIES: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
_STATS: Final = frozenset(STATS)


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Return a text of the broker; octets of it that are not UTF-8 are surrogate escapes."""
    if name in fields:
        return str(fields[name])
    return base64.b64decode(fields[name + "_base64"]).decode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    """Return a text that can be sent as JSON: octets that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def message_stats(values: Values) -> dict[str, int]:
    """Return the counters that are not 0."""
    stats = {name: values[name] for name in STATS if values.get(name)}
    if delivered := sum(stats.get(name, 0) for name in _DELIVERIES):
        stats["deliver_get"] = delivered
    return stats


def moment_text(at_ms: int) -> str:
    """Return a time in UTC as ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def queue_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of a queue."""
    ready, unacked = values["messages_ready"], values["messages_unacknowledged"]
    # Dead letters that wait for a queue that takes them; the name is RabbitMQ's.
    leaving = values["messages_dlx"]
    messages = ready + unacked + leaving
    mean = values["message_bytes_mean"]
    in_ram = min(values["messages_ram"], messages)
    in_ram_bytes = min(values["message_bytes_ram"], int(mean * messages)) if in_ram else 0
    is_kept = attributes["durability"] != "none"
    sizes = {
        "message_bytes": int(mean * messages),
        "message_bytes_ready": int(mean * ready),
        "message_bytes_unacknowledged": int(mean * unacked),
        "message_bytes_dlx": int(mean * leaving),
        "message_bytes_ram": in_ram_bytes,
        "message_bytes_persistent": int(mean * messages) if is_kept else 0,
        "message_bytes_paged_out": int(mean * messages) - in_ram_bytes,
    }
    fields = {
        **{
            name: value for name, value in attributes.items() if name not in _QUEUE_ATTRIBUTES_APART
        },
        **_without_stats(values, _QUEUE_VALUES_APART),
        "messages": messages,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_dlx": leaving,
        "messages_ram": in_ram,
        "messages_ready_ram": min(in_ram, ready),
        "messages_unacknowledged_ram": in_ram - min(in_ram, ready),
        "messages_persistent": messages if is_kept else 0,
        "messages_paged_out": messages - in_ram,
        **sizes,
        "memory": values["message_bytes_ram"],
        "message_stats": message_stats(values),
    }
    if attributes["owner"] is not None:
        fields["owner_pid_details"] = peer_details(attributes["owner"])
    return fields


_QUEUE_ATTRIBUTES_APART: Final = frozenset({"owner", "name_base64", "vhost_base64"})
_QUEUE_VALUES_APART: Final = frozenset(
    {"message_bytes_mean", "message_bytes_ram", "oldest_segment_ns", "ack_floor"}
)


def exchange_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of an exchange."""
    return {**_without_octets(attributes), **_without_stats(values), **_stats_of(values)}


def vhost_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of a virtual host; the mirror adds the sums over its queues."""
    metadata = values["metadata"]
    return {
        **_without_octets(attributes),
        **_without_stats(values, _VHOST_VALUES_APART),
        "description": metadata.get("description", ""),
        "tags": metadata.get("tags", []),
        "default_queue_type": metadata.get("default_queue_type", "undefined"),
        "protected_from_deletion": bool(metadata.get("protected_from_deletion")),
        **_stats_of(values["stats"]),
    }


_VHOST_VALUES_APART: Final = frozenset({"stats"})


def connection_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of a connection."""
    return {**_without_octets(attributes), **_without_stats(values)}


def channel_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of a channel."""
    return {
        **{name: attributes[name] for name in attributes if name != "connection"},
        "name": f"{attributes['connection']} ({attributes['number']})",
        "connection_details": peer_details(attributes["connection"]),
        **_without_stats(values, _CHANNEL_VALUES_APART),
        "message_stats": message_stats({**values, "confirm": values["confirm_count"]}),
        "confirm": values["confirm"],
    }


_CHANNEL_VALUES_APART: Final = frozenset({"confirm_count"})


def consumer_fields(attributes: Fields, values: Values) -> Fields:
    """Return the fields of a consumer."""
    apart = {"queue", "vhost", "connection", "channel", "user"}
    connection = attributes["connection"]
    peer = peer_details(connection)
    return {
        **{name: attributes[name] for name in attributes if name not in apart},
        "queue": {"name": attributes["queue"], "vhost": attributes["vhost"]},
        "channel_details": {
            "name": f"{connection} ({attributes['channel']})",
            "number": attributes["channel"],
            "connection_name": connection,
            "peer_host": peer["peer_host"],
            "peer_port": peer["peer_port"],
            "user": attributes["user"],
        },
        **values,
    }


def peer_details(connection: str) -> Fields:
    """Return the name of a connection, and the address of its client."""
    peer = connection.partition(" -> ")[0]
    host, _, port = peer.rpartition(":")
    is_address = port.isdecimal()
    return {
        "name": connection,
        "peer_host": host.strip("[]") if is_address else peer,
        "peer_port": int(port) if is_address else 0,
    }


def _stats_of(values: Values) -> Fields:
    """Return the object's `message_stats`; absent while nothing happened, as in RabbitMQ."""
    stats = message_stats(values)
    return {"message_stats": stats} if stats else {}


def _without_stats(values: Values, apart: frozenset[str] = frozenset()) -> Fields:
    """Return the values that are shown as they are; unset ones are left out."""
    return {
        name: value
        for name, value in values.items()
        if name not in _STATS and name not in apart and value is not None
    }


def _without_octets(attributes: Fields) -> Fields:
    return {name: value for name, value in attributes.items() if not name.endswith("_base64")}


FIELDS: Final[Mapping[str, Callable[[Fields, Values], Fields]]] = {
    "vhosts": vhost_fields,
    "queues": queue_fields,
    "exchanges": exchange_fields,
    "connections": connection_fields,
    "channels": channel_fields,
    "consumers": consumer_fields,
}
"""For each kind what makes its fields."""
