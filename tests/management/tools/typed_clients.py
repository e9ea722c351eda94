"""What clients in typed languages need of answers: fields with their types, by path.

Two of them cannot be installed here: `rabbitmqadmin` 2 (Rust), for which a field that is missing is
an error, and `rabbit-hole` (Go), the client of Terraform's provider, which fails by a field of
another type but takes what is missing for 0. The tables are of the versions of August 2026.

A field's type is `text`, `flag`, `count` (a whole number from 0), `small` (a count below 65536),
`whole` (which may be negative), `number`, `map` (an object of any fields), `any`, a set of the
texts that are known, a table of fields, or a list with the type of its items. `?` before the name,
for tables `Maybe`, allows the field to be missing or null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple


class Maybe(NamedTuple):
    """A field that may be missing, or null.

    Attributes:
        kind: Its type where it is there.
    """

    kind: Any


Table = dict[str, Any]
_COUNT_MAX: Final = 2**64 - 1
_SMALL_MAX: Final = 2**16 - 1


def faults(kind: Any, value: Any, place: str = "", *, is_lenient: bool = False) -> Iterator[str]:  # noqa: ANN401 - JSON and its types
    """Yield what a typed client could not read.

    Args:
        kind: Type that the client has.
        value: JSON value of an answer.
        place: Way to it, for the reports.
        is_lenient: Whether every field may be missing.
    """
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            yield f"{place}: no object but {value!r:.60}"
            return
        for name, inner in kind.items():
            yield from _of_field(inner, value.get(name), f"{place}.{name}", is_lenient=is_lenient)
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{place}: no list but {value!r:.60}"
            return
        for item in value:
            yield from faults(kind[0], item, f"{place}[]", is_lenient=is_lenient)
    elif isinstance(kind, frozenset):
        if value not in kind:
            yield f"{place}: {value!r:.60} is none of {sorted(kind)}"
    elif not _KINDS[kind](value):
        yield f"{place}: no {kind} but {value!r:.60}"


def _of_field(kind: Any, value: Any, place: str, *, is_lenient: bool) -> Iterator[str]:  # noqa: ANN401
    may_be_missing = is_lenient
    if isinstance(kind, Maybe):
        kind, may_be_missing = kind.kind, True
    elif isinstance(kind, str) and kind.startswith("?"):
        kind, may_be_missing = kind[1:], True
    if value is not None:
        yield from faults(kind, value, place, is_lenient=is_lenient)
    elif not may_be_missing and kind != "any":
        yield f"{place}: missing"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "count": lambda value: _is_whole(value) and 0 <= value <= _COUNT_MAX,
    "small": lambda value: _is_whole(value) and 0 <= value <= _SMALL_MAX,
    "whole": _is_whole,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "map": lambda value: isinstance(value, dict),
    "any": lambda value: True,
    "port": lambda value: _is_whole(value) or (isinstance(value, str) and value.isdecimal()),
    "tags": lambda value: isinstance(value, list) and all(isinstance(tag, str) for tag in value),
    "digits": lambda value: str(value).isdecimal(),
}

# rabbitmqadmin 2

_RATE: Final = {"rate": "number"}
_PEER: Final = {"name": "text", "peer_host": "text", "peer_port": "count"}
_CHANNEL_DETAILS: Final = _PEER | {
    "number": "count",
    "connection_name": "text",
    "node": "text",
    "user": "text",
}
_CHANNEL: Final = {
    "number": "count",
    "name": "text",
    "connection_details": _PEER,
    "vhost": "text",
    "state": "text",
    "consumer_count": "count",
    "confirm": "flag",
    "prefetch_count": "count",
    "messages_unacknowledged": "count",
    "messages_unconfirmed": "count",
}
_CONNECTION: Final = {
    "name": "text",
    "node": "text",
    "state": "?text",
    "protocol": "text",
    "user": "text",
    "connected_at": "count",
    "host": "?text",
    "port": "?count",
    "peer_host": "?text",
    "peer_port": "?count",
    "channel_max": "?small",
    "channels": "?small",
    "client_properties": {
        "connection_name": "?text",
        "platform": "?text",
        "product": "?text",
        "version": "?text",
        "information": "?text",
        "capabilities": Maybe(
            {
                "authentication_failure_close": "?flag",
                "basic.nack": "?flag",
                "connection.blocked": "?flag",
                "consumer_cancel_notify": "?flag",
                "exchange_exchange_bindings": "?flag",
                "publisher_confirms": "?flag",
            }
        ),
    },
}
_NODE: Final = {
    "name": "text",
    "uptime": "count",
    "run_queue": "count",
    "processors": "count",
    "os_pid": "digits",
    "fd_total": "count",
    "proc_total": "count",
    "mem_limit": "count",
    "mem_alarm": "flag",
    "disk_free_limit": "count",
    "disk_free_alarm": "flag",
    "rates_mode": "text",
    "enabled_plugins": "tags",
    "being_drained": "flag",
    "applications": Maybe([{"name": "text", "description": "text", "version": "text"}]),
    "rabbitmq_version": "?text",
    "erlang_version": "?text",
    "erlang_full_version": "?text",
}
_MEMORY: Final = dict.fromkeys(
    (
        "connection_readers",
        "connection_writers",
        "connection_channels",
        "connection_other",
        "queue_procs",
        "quorum_queue_procs",
        "stream_queue_procs",
        "stream_queue_replica_reader_procs",
        "stream_queue_coordinator_procs",
        "plugins",
        "metadata_store",
        "other_proc",
        "metrics",
        "mgmt_db",
        "mnesia",
        "quorum_ets",
        "metadata_store_ets",
        "binary",
        "msg_index",
        "code",
        "atom",
        "other_system",
        "allocated_unused",
        "reserved_unallocated",
    ),
    "count",
) | {
    "other_ets": "whole",
    "strategy": "text",
    "total": {"rss": "count", "allocated": "count", "erlang": "count"},
}
_OVERVIEW: Final = {
    "cluster_name": "text",
    "node": "text",
    "erlang_full_version": "text",
    "erlang_version": "text",
    "rabbitmq_version": "text",
    "product_name": "text",
    "product_version": "text",
    "cluster_tags": "?map",
    "node_tags": "?map",
    "statistics_db_event_queue": "count",
    "churn_rates": {
        "connection_created": "count",
        "connection_closed": "count",
        "queue_declared": "count",
        "queue_created": "count",
        "queue_deleted": "count",
        "channel_created": "count",
        "channel_closed": "count",
    },
    "queue_totals": {
        "messages": "count",
        "messages_ready": "?count",
        "messages_unacknowledged": "?count",
        "messages_details": _RATE,
        "messages_ready_details": Maybe(_RATE),
        "messages_unacknowledged_details": Maybe(_RATE),
    },
    "object_totals": {
        "connections": "count",
        "channels": "count",
        "queues": "count",
        "exchanges": "count",
        "consumers": "count",
    },
    "message_stats": {
        f"{counter}_details": Maybe(_RATE)
        for counter in (
            "deliver_get",
            "publish",
            "deliver_no_ack",
            "redeliver",
            "confirm",
            "ack",
            "drop_unroutable",
            "return_unroutable",
        )
    },
    "listeners": [{"node": "text", "protocol": "text", "port": "count", "ip_address": "text"}],
}
_QUEUE: Final = {
    "name": "text",
    "vhost": "text",
    "type": "text",
    "durable": "flag",
    "auto_delete": "flag",
    "exclusive": "flag",
    "arguments": "map",
    "node": "?text",
    "state": "?text",
    "leader": "?text",
    "members": "?tags",
    "online": "?tags",
    "memory": "?count",
    "consumers": "?small",
    "consumer_utilisation": "?number",
    "exclusive_consumer_tag": "?text",
    "policy": "?text",
    "operator_policy": "?text",
    "effective_policy_definition": "?map",
    "message_bytes": "?count",
    "message_bytes_persistent": "?count",
    "message_bytes_ram": "?count",
    "message_bytes_ready": "?count",
    "message_bytes_unacknowledged": "?count",
    "messages": "?count",
    "messages_persistent": "?count",
    "messages_ram": "?count",
    "messages_unacknowledged": "?count",
    "garbage_collection": Maybe(
        {
            "fullsweep_after": "count",
            "max_heap_size": "count",
            "min_bin_vheap_size": "count",
            "min_heap_size": "count",
            "minor_gcs": "count",
        }
    ),
}
_DEFINED_QUEUE: Final = {
    "name": "text",
    "durable": "flag",
    "auto_delete": "flag",
    "arguments": "map",
}
_EXCHANGE: Final = {
    "name": "text",
    "type": "text",
    "durable": "flag",
    "auto_delete": "flag",
    "arguments": "map",
}
_BINDING: Final = {
    "source": "text",
    "destination": "text",
    "destination_type": frozenset({"queue", "exchange"}),
    "routing_key": "text",
    "arguments": "map",
    "properties_key": "?text",
}
_VHOSTED: Final = {"vhost": "text"}
_POLICY: Final = {
    "name": "text",
    "pattern": "text",
    "apply-to": frozenset(
        {"queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"}
    ),
    "priority": "whole",
    "definition": "map",
}
_PARAMETER: Final = {"name": "text", "component": "text", "value": "any"}
_USER: Final = {"name": "text", "tags": "tags", "password_hash": "text"}
_METADATA: Final = {"tags": "?tags", "description": "?text", "default_queue_type": "?text"}
_VHOST: Final = _METADATA | {"name": "text", "metadata": Maybe(_METADATA)}
_PERMISSION: Final = {"user": "text", "vhost": "text", "read": "text", "write": "text"}
_PAGE: Final = dict.fromkeys(
    ("filtered_count", "item_count", "page", "page_count", "page_size", "total_count"), "count"
)
_FEATURE: Final = {"name": "text", "desc": "text", "doc_url": "text", "provided_by": "text"}
_FLAG_STATES: Final = frozenset({"enabled", "disabled", "state_changing", "unavailable"})
_STABILITIES: Final = frozenset({"required", "stable", "experimental"})
_PHASES: Final = frozenset(
    {"permitted_by_default", "denied_by_default", "disconnected", "removed", "undefined"}
)

RABBITMQADMIN_2: Final[Mapping[str, Any]] = {
    "/overview": _OVERVIEW,
    "/cluster-name": {"name": "text"},
    "/nodes": [_NODE],
    "/nodes/{node}": _NODE,
    "/nodes/{node}/memory": {"memory": _MEMORY},
    "/vhosts": [_VHOST],
    "/vhosts?page=1": _PAGE | {"items": [_VHOST]},
    "/vhosts/walk": _VHOST,
    "/users": [_USER],
    "/users/walker": _USER,
    "/users/without-permissions": [_USER],
    "/whoami": {"name": "text", "tags": "tags"},
    "/permissions": [_PERMISSION | {"configure": "text"}],
    "/permissions/walk/walker": _PERMISSION | {"configure": "text"},
    "/topic-permissions": [_PERMISSION | {"exchange": "text"}],
    "/user-limits": [{"user": "text", "value": "map"}],
    "/vhost-limits": [{"vhost": "text", "value": "map"}],
    "/queues": [_QUEUE],
    "/queues/%2F": [_QUEUE],
    "/queues/detailed": [_QUEUE],
    "/queues?page=1&page_size=100": _PAGE | {"items": [_QUEUE]},
    "/queues/%2F/walk": _QUEUE,
    "/queues/%2F/walk-stream": _QUEUE,
    "/queues/%2F/walk-quorum": _QUEUE,
    "/exchanges": [_EXCHANGE | _VHOSTED],
    "/exchanges/%2F/walk": _EXCHANGE | _VHOSTED,
    "/bindings": [_BINDING | _VHOSTED],
    "/bindings/%2F/e/walk/q/walk": [_BINDING | _VHOSTED],
    "/queues/%2F/walk/bindings": [_BINDING | _VHOSTED],
    "/connections": [_CONNECTION],
    "/connections?page=1": _PAGE | {"items": [_CONNECTION]},
    "/connections/{connection}": _CONNECTION,
    "/connections/username/guest": [
        {"name": "text", "node": "text", "user": "text", "vhost": "text"}
    ],
    "/channels": [_CHANNEL],
    "/channels?page=1": _PAGE | {"items": [_CHANNEL]},
    "/connections/{connection}/channels": [_CHANNEL],
    "/consumers": [
        {
            "consumer_tag": "text",
            "active": "flag",
            "ack_required": "flag",
            "prefetch_count": "count",
            "exclusive": "flag",
            "arguments": "map",
            "consumer_timeout": "count",
            "queue": {"name": "text", "vhost": "text"},
            "channel_details": Maybe(_CHANNEL_DETAILS),
        }
    ],
    "/policies": [_POLICY | _VHOSTED],
    "/operator-policies": [_POLICY | _VHOSTED],
    "/parameters": [_PARAMETER | _VHOSTED],
    "/global-parameters": [{"name": "text", "value": "any"}],
    "/definitions": {
        "rabbitmq_version": "?text",
        "users": [_USER],
        "vhosts": [_VHOST],
        "permissions": [_PERMISSION | {"configure": "text"}],
        "parameters": [_PARAMETER | _VHOSTED],
        "policies": [_POLICY | _VHOSTED],
        "queues": [_DEFINED_QUEUE | _VHOSTED],
        "exchanges": [_EXCHANGE | _VHOSTED],
        "bindings": [_BINDING | _VHOSTED],
    },
    "/definitions/%2F": {
        "rabbitmq_version": "?text",
        "metadata": Maybe(_METADATA),
        "parameters": [_PARAMETER],
        "policies": [_POLICY],
        "queues": [_DEFINED_QUEUE],
        "exchanges": [_EXCHANGE],
        "bindings": [_BINDING],
    },
    "/feature-flags": [_FEATURE | {"state": _FLAG_STATES, "stability": _STABILITIES}],
    "/deprecated-features": [_FEATURE | {"deprecation_phase": _PHASES, "state": "?text"}],
    "/deprecated-features/used": [_FEATURE | {"deprecation_phase": _PHASES, "state": "?text"}],
    "/auth/attempts/{node}": [
        {
            "protocol": frozenset({"amqp", "amqp091", "amqp10", "http", "mqtt", "stomp", "stream"}),
            "auth_attempts": "count",
            "auth_attempts_failed": "count",
            "auth_attempts_succeeded": "count",
        }
    ],
    "/health/checks/alarms": {"status": "text"},
    "/health/checks/local-alarms": {"status": "text"},
    "/health/checks/node-is-quorum-critical": {"status": "text"},
    "/shovels": [
        {"node": "text", "name": "text", "type": frozenset({"dynamic", "static"}), "state": "text"}
    ],
    "/federation-links": [
        {
            "node": "text",
            "vhost": "text",
            "id": "text",
            "uri": "text",
            "status": "text",
            "type": frozenset({"exchange", "queue"}),
            "upstream": "text",
        }
    ],
    "/shovels/%2F": ["map"],
    "/stream/connections": [_CONNECTION],
    "/stream/connections/%2F": [_CONNECTION],
    "/stream/publishers": ["map"],
    "/stream/publishers/%2F": ["map"],
    "/stream/publishers/%2F/walk-stream": ["map"],
    "/stream/consumers": ["map"],
    "/stream/consumers/%2F": ["map"],
    "/vhosts/%2F/channels": [_CHANNEL],
    "/vhosts/%2F/connections": [_CONNECTION],
    "/vhosts/walk/permissions": [_PERMISSION | {"configure": "text"}],
    "/vhosts/walk/topic-permissions": [_PERMISSION | {"exchange": "text"}],
    "/users/walker/permissions": [_PERMISSION | {"configure": "text"}],
    "/users/walker/topic-permissions": [_PERMISSION | {"exchange": "text"}],
    "/user-limits/walker": [{"user": "text", "value": "map"}],
    "/vhost-limits/walk": [{"vhost": "text", "value": "map"}],
    "/exchanges/%2F": [_EXCHANGE | _VHOSTED],
    "/exchanges/%2F/walk/bindings/source": [_BINDING | _VHOSTED],
    "/bindings/%2F": [_BINDING | _VHOSTED],
    "/bindings/%2F/e/walk/e/walk-inner": [_BINDING | _VHOSTED],
    "/policies/%2F": [_POLICY | _VHOSTED],
    "/policies/%2F/walk": _POLICY | _VHOSTED,
    "/operator-policies/%2F/walk": _POLICY | _VHOSTED,
    "/parameters/vhost-limits": [_PARAMETER | _VHOSTED],
    "/parameters/vhost-limits/walk": [_PARAMETER | _VHOSTED],
    "/parameters/vhost-limits/walk/limits": _PARAMETER | _VHOSTED,
    "/global-parameters/walk": {"name": "text", "value": "any"},
}

# rabbit-hole: what is there must have this type.

_HOLE_RATE: Final = {"rate": "number", "samples": [{"sample": "whole", "timestamp": "whole"}]}


def _rated(kind: str, *names: str) -> Table:
    """Return counters, each with its rate."""
    rates: Table = {f"{name}_details": _HOLE_RATE for name in names}
    return dict.fromkeys(names, kind) | rates


_HOLE_STATS: Final = _rated(
    "whole",
    "publish",
    "deliver",
    "deliver_noack",
    "deliver_get",
    "redeliver",
    "get",
    "get_no_ack",
    "ack",
    "return_unroutable",
    "drop_unroutable",
)
_HOLE_EXCHANGE: Final = {
    "name": "text",
    "vhost": "text",
    "type": "text",
    "durable": "flag",
    "auto_delete": "flag",
    "internal": "flag",
    "arguments": "map",
    "message_stats": _rated("whole", "publish_in", "publish_out"),
}
_HOLE_CHANNEL_DETAILS: Final = {
    "connection_name": "text",
    "name": "text",
    "node": "text",
    "number": "count",
    "peer_host": "text",
    "peer_port": "port",
    "user": "text",
}
_HOLE_CONSUMER: Final = {
    "arguments": "map",
    "ack_required": "flag",
    "active": "flag",
    "active_status": "text",
    "channel_details": _HOLE_CHANNEL_DETAILS,
    "consumer_tag": "text",
    "exclusive": "flag",
    "prefetch_count": "count",
    "queue": {"name": "text", "vhost": "text"},
}
_HOLE_QUEUE: Final = {
    "name": "text",
    "type": "text",
    "vhost": "text",
    "durable": "flag",
    "auto_delete": "flag",
    "exclusive": "flag",
    "arguments": "map",
    "node": "text",
    "state": "text",
    "leader": "text",
    "members": "tags",
    "online": "tags",
    "memory": "whole",
    "consumers": "whole",
    "consumer_details": [_HOLE_CONSUMER],
    "consumer_utilisation": "number",
    "exclusive_consumer_tag": "text",
    "garbage_collection": dict.fromkeys(
        (
            "fullsweep_after",
            "max_heap_size",
            "min_bin_vheap_size",
            "min_heap_size",
            "minor_gcs",
        ),
        "whole",
    ),
    "policy": "text",
    "message_bytes": "whole",
    "message_bytes_persistent": "whole",
    "message_bytes_ram": "whole",
    "message_bytes_ready": "whole",
    "message_bytes_unacknowledged": "whole",
    "messages_persistent": "whole",
    "messages_ram": "whole",
    "message_stats": _HOLE_STATS,
    "owner_pid_details": {"name": "text", "peer_port": "port", "peer_host": "text"},
    "backing_queue_status": dict.fromkeys(
        (
            "q1",
            "q2",
            "q3",
            "q4",
            "len",
            "pending_acks",
            "ram_msg_count",
            "ram_ack_count",
            "persistent_count",
        ),
        "whole",
    ),
    "active_consumers": "whole",
} | _rated("whole", "messages", "messages_ready", "messages_unacknowledged")
_HOLE_CONNECTION: Final = {
    "name": "text",
    "node": "text",
    "channels": "whole",
    "state": "text",
    "type": "text",
    "port": "port",
    "peer_port": "port",
    "host": "text",
    "peer_host": "text",
    "last_blocked_by": "text",
    "last_blocked_age": "text",
    "ssl": "flag",
    "peer_cert_subject": "text",
    "peer_cert_validity": "text",
    "peer_cert_issuer": "text",
    "ssl_protocol": "text",
    "ssl_key_exchange": "text",
    "ssl_cipher": "text",
    "ssl_hash": "text",
    "protocol": "text",
    "user": "text",
    "vhost": "text",
    "timeout": "whole",
    "frame_max": "whole",
    "client_properties": "map",
    "recv_cnt": "count",
    "send_cnt": "count",
    "send_pend": "count",
    "connected_at": "count",
} | _rated("count", "recv_oct", "send_oct")
_HOLE_CHANNEL: Final = {
    "number": "whole",
    "name": "text",
    "prefetch_count": "whole",
    "consumer_count": "whole",
    "messages_unacknowledged": "whole",
    "messages_unconfirmed": "whole",
    "messages_uncommitted": "whole",
    "acks_uncommitted": "whole",
    "idle_since": "text",
    "confirm": "flag",
    "transactional": "flag",
    "client_flow_blocked": "flag",
    "user": "text",
    "vhost": "text",
    "node": "text",
    "connection_details": {"name": "text", "peer_port": "port", "peer_host": "text"},
}
_HOLE_CONTEXT: Final = {
    "node": "text",
    "description": "text",
    "path": "text",
    "port": "port",
    "ignore_in_use": "flag",
}
_HOLE_TYPES: Final = [{"name": "text", "description": "text", "enabled": "flag"}]
_HOLE_NODE: Final = (
    {
        "name": "text",
        "type": "text",
        "running": "flag",
        "os_pid": "text",
        "fd_total": "whole",
        "proc_total": "whole",
        "mem_limit": "whole",
        "mem_alarm": "flag",
        "disk_free_limit": "whole",
        "disk_free_alarm": "flag",
        "run_queue": "count",
        "processors": "count",
        "uptime": "count",
        "exchange_types": _HOLE_TYPES,
        "auth_mechanisms": _HOLE_TYPES,
        "applications": [{"name": "text", "description": "text", "version": "text"}],
        "contexts": [_HOLE_CONTEXT],
        "partitions": "tags",
        "cluster_links": ["map"],
        "metrics_gc_queue_length": dict.fromkeys(
            (
                "connection_closed",
                "channel_closed",
                "consumer_deleted",
                "exchange_deleted",
                "queue_deleted",
                "vhost_deleted",
                "node_node_deleted",
                "channel_consumer_deleted",
            ),
            "whole",
        ),
    }
    | _rated("whole", "fd_used", "proc_used", "mem_used", "disk_free")
    | _rated(
        "count",
        "gc_num",
        "gc_bytes_reclaimed",
        "context_switches",
        "connection_created",
        "connection_closed",
        "channel_created",
        "channel_closed",
        "queue_declared",
        "queue_created",
        "queue_deleted",
        "io_read_count",
        "io_read_bytes",
        "io_write_count",
        "io_write_bytes",
        "io_sync_count",
        "io_seek_count",
        "io_reopen_count",
        "io_file_handle_open_attempt_count",
        "mnesia_ram_tx_count",
        "mnesia_disk_tx_count",
        "msg_store_read_count",
        "msg_store_write_count",
        "queue_index_journal_write_count",
        "queue_index_write_count",
        "queue_index_read_count",
    )
    | _rated("number", "io_read_avg_time", "io_write_avg_time", "io_sync_avg_time")
)
_HOLE_VHOST: Final = (
    {
        "name": "text",
        "description": "text",
        "tags": "tags",
        "default_queue_type": "text",
        "tracing": "flag",
        "recv_cnt": "count",
        "send_cnt": "count",
        "send_pend": "count",
        "cluster_state": "map",
    }
    | _rated("whole", "messages", "messages_ready", "messages_unacknowledged")
    | _rated("count", "recv_oct", "send_oct")
)
_HOLE_POLICY: Final = {
    "vhost": "text",
    "pattern": "text",
    "apply-to": "text",
    "name": "text",
    "priority": "whole",
    "definition": "map",
}
_HOLE_USER: Final = {
    "name": "text",
    "password_hash": "text",
    "hashing_algorithm": "text",
    "tags": "tags",
}
_HOLE_PERMISSION: Final = dict.fromkeys(("user", "vhost", "configure", "write", "read"), "text")
_HOLE_TOPIC: Final = dict.fromkeys(("user", "vhost", "exchange", "write", "read"), "text")
_HOLE_PARAMETER: Final = {"name": "text", "vhost": "text", "component": "text", "value": "any"}
_HOLE_BINDING: Final = {
    "source": "text",
    "vhost": "text",
    "destination": "text",
    "destination_type": "text",
    "routing_key": "text",
    "arguments": "map",
    "properties_key": "text",
}
_HOLE_PAGE: Final = dict.fromkeys(
    ("filtered_count", "item_count", "page", "page_count", "page_size", "total_count"), "whole"
)

RABBIT_HOLE: Final[Mapping[str, Any]] = {
    "/overview": {
        "management_version": "text",
        "statistics_level": "text",
        "rabbitmq_version": "text",
        "erlang_version": "text",
        "erlang_full_version": "text",
        "exchange_types": _HOLE_TYPES,
        "message_stats": _HOLE_STATS,
        "queue_totals": _rated("whole", "messages", "messages_ready", "messages_unacknowledged"),
        "object_totals": dict.fromkeys(
            ("consumers", "queues", "exchanges", "connections", "channels"), "whole"
        ),
        "node": "text",
        "statistics_db_node": "text",
        "listeners": [{"node": "text", "protocol": "text", "ip_address": "text", "port": "port"}],
        "contexts": [_HOLE_CONTEXT],
    },
    "/nodes": [_HOLE_NODE],
    "/nodes/{node}": _HOLE_NODE,
    "/vhosts": [_HOLE_VHOST],
    "/vhosts/walk": _HOLE_VHOST,
    "/vhosts/%2F": _HOLE_VHOST,
    "/vhosts/%2F/connections": [_HOLE_CONNECTION],
    "/vhosts/%2F/channels": [_HOLE_CHANNEL],
    "/users": [_HOLE_USER],
    "/users/walker": _HOLE_USER,
    "/whoami": {"name": "text", "tags": "tags", "auth_backend": "text"},
    "/permissions": [_HOLE_PERMISSION],
    "/permissions/walk/walker": _HOLE_PERMISSION,
    "/users/walker/permissions": [_HOLE_PERMISSION],
    "/topic-permissions": [_HOLE_TOPIC],
    "/topic-permissions/walk/walker": [_HOLE_TOPIC],
    "/users/walker/topic-permissions": [_HOLE_TOPIC],
    "/queues": [_HOLE_QUEUE],
    "/queues/%2F": [_HOLE_QUEUE],
    "/queues?page=1&page_size=100": _HOLE_PAGE | {"items": [_HOLE_QUEUE]},
    "/queues/%2F/walk": _HOLE_QUEUE,
    "/queues/%2F/walk?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5": _HOLE_QUEUE,
    "/queues/%2F/policed": _HOLE_QUEUE,
    "/queues/%2F/exclusive": _HOLE_QUEUE,
    "/queues/%2F/walk-stream": _HOLE_QUEUE,
    "/queues/%2F/walk-quorum": _HOLE_QUEUE,
    "/exchanges": [_HOLE_EXCHANGE],
    "/exchanges/%2F/walk": _HOLE_EXCHANGE,
    "/bindings": [_HOLE_BINDING],
    "/bindings/%2F": [_HOLE_BINDING],
    "/bindings/%2F/e/walk/q/walk": [_HOLE_BINDING],
    "/queues/%2F/walk/bindings": [_HOLE_BINDING],
    "/exchanges/%2F/walk/bindings/source": [_HOLE_BINDING],
    "/connections": [_HOLE_CONNECTION],
    "/connections?page=1": _HOLE_PAGE | {"items": [_HOLE_CONNECTION]},
    "/connections/{connection}": _HOLE_CONNECTION,
    "/connections/username/guest": [
        dict.fromkeys(("name", "node", "user", "vhost"), "text"),
    ],
    "/channels": [_HOLE_CHANNEL],
    "/channels/{channel}": _HOLE_CHANNEL,
    "/consumers": [_HOLE_CONSUMER],
    "/consumers/%2F": [_HOLE_CONSUMER],
    "/policies": [_HOLE_POLICY],
    "/policies/%2F/walk": _HOLE_POLICY,
    "/operator-policies": [_HOLE_POLICY],
    "/operator-policies/%2F/walk": _HOLE_POLICY,
    "/parameters": [_HOLE_PARAMETER],
    "/global-parameters": [{"name": "text", "value": "any"}],
    "/global-parameters/walk": {"name": "text", "value": "any"},
    "/vhost-limits": [{"vhost": "text", "value": "map"}],
    "/user-limits": [{"user": "text", "value": "map"}],
    "/cluster-name": {"name": "text"},
    "/feature-flags": [
        dict.fromkeys(("name", "desc", "doc_url", "state", "stability", "provided_by"), "text")
    ],
    "/definitions": {
        "rabbit_version": "text",
        "rabbitmq_version": "text",
        "product_name": "text",
        "product_version": "text",
        "users": [_HOLE_USER],
        "vhosts": [_HOLE_VHOST],
        "permissions": [_HOLE_PERMISSION],
        "topic_permissions": [_HOLE_TOPIC],
        "parameters": [_HOLE_PARAMETER],
        "global_parameters": [{"name": "text", "value": "any"}],
        "policies": [_HOLE_POLICY],
        "queues": [_HOLE_QUEUE],
        "exchanges": [_HOLE_EXCHANGE],
        "bindings": [_HOLE_BINDING],
    },
    "/definitions/%2F": {
        "policies": [_HOLE_POLICY],
        "queues": [_HOLE_QUEUE],
        "exchanges": [_HOLE_EXCHANGE],
        "bindings": [_HOLE_BINDING],
    },
    "/health/checks/alarms": {"status": "text", "reason": "text", "alarms": ["map"]},
    "/health/checks/local-alarms": {"status": "text", "reason": "text", "alarms": ["map"]},
    "/health/checks/certificate-expiration/1/months": {"status": "text", "reason": "text"},
    "/health/checks/protocol-listener/amqp091": {
        "status": "text",
        "missing": "text",
        "protocols": "tags",
    },
    "/health/checks/virtual-hosts": {"status": "text", "reason": "text"},
    "/health/checks/node-is-mirror-sync-critical": {"status": "text", "reason": "text"},
    "/health/checks/node-is-quorum-critical": {"status": "text", "reason": "text"},
    "/shovels": [dict.fromkeys(("name", "vhost", "type", "state", "timestamp"), "text")],
    "/federation-links": ["map"],
}
