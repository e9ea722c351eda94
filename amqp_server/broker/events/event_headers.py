"""Messages of RabbitMQ's event exchange for an event: routing keys, each with its headers.

An event that RabbitMQ does not have is sent under its own name, with its details as headers. Where
RabbitMQ sends two messages for one event of ours, so does this: setting an operator policy is the
setting of a parameter there too.

Source: recorded from RabbitMQ 3.10 with the plugin rabbitmq_event_exchange.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.events.erlang_terms import address_term, table_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amqp_server.broker.events.event import Event

    Headers = dict[str, Any]
    """Texts, whole numbers, truth values, lists and tables."""
    Sent = tuple[str, Headers]
    """A routing key, and the headers of its message."""

INTERNAL_USER: Final = "rmq-internal"
"""User of events that the server causes by itself."""
COMMAND_USER: Final = "rmq-cli"
"""User of events that a command of an operating system's user causes."""
PROTOCOL: Final = "{0,9,1}"
_LIMITS: Final = "limits"


def node_name() -> str:
    """Return the name of this node, as RabbitMQ would call it."""
    return f"rabbit@{socket.gethostname().partition('.')[0]}"


def sent_for(event: Event) -> list[Sent]:
    """Return what is sent for an event, in this order."""
    make = _MAKERS.get(event.name)
    return [(event.name, _own(event))] if make is None else make(event)


def endpoints(name: str) -> Headers:
    """Return the addresses in a connection's name as headers."""
    peer, _, local = name.partition(" -> ")
    peer_host, _, peer_port = peer.rpartition(":")
    host, _, port = local.rpartition(":")
    found: Headers = {"peer_host": address_term(peer_host), "host": address_term(host)}
    if peer_port.isdecimal() and port.isdecimal():
        found |= {"peer_port": int(peer_port), "port": int(port)}
    return found


def _who(event: Event) -> Headers:
    user = event.actor.user
    if not user:
        user = INTERNAL_USER
    elif user.startswith("os:"):
        user = COMMAND_USER
    return {"user_who_performed_action": user}


def _named(event: Event) -> Headers:
    return {"name": event.object_name, "vhost": event.vhost, **_who(event)}


def _own(event: Event) -> Headers:
    """Return the headers of an event that RabbitMQ does not have."""
    named = {"name": event.object_name, "vhost": event.vhost}
    return {
        **{key: value for key, value in named.items() if value},
        **event.details,
        **event.attributes,
        **_who(event),
    }


def _arguments(event: Event) -> Headers:
    table: Any = event.attributes.get("arguments", {})
    return {"arguments": table_terms(table)}


def _picked(event: Event, *names: str) -> Headers:
    return {name: event.details[name] for name in names if name in event.details}


def _queue_created(event: Event) -> list[Sent]:
    headers = {
        **_named(event),
        **_picked(event, "durable", "auto_delete", "exclusive"),
        **_arguments(event),
    }
    kind = event.attributes.get("type", "classic")
    if kind == "classic":
        headers["owner_pid"] = event.attributes.get("owner_pid", "")
    else:
        headers["type"] = f"rabbit_{kind}_queue"
    return [(event.name, headers)]


def _exchange_created(event: Event) -> list[Sent]:
    headers = {
        **_named(event),
        **_picked(event, "type", "durable", "auto_delete", "internal"),
        **_arguments(event),
        "policy": "",
    }
    return [(event.name, headers)]


def _only_named(event: Event) -> list[Sent]:
    return [(event.name, _named(event))]


def _binding(event: Event) -> list[Sent]:
    headers = {
        "source_name": event.details.get("source", ""),
        "source_kind": "exchange",
        "destination_name": event.object_name,
        "destination_kind": event.details.get("destination_type", "queue"),
        "routing_key": event.details.get("routing_key", ""),
        **_arguments(event),
        "vhost": event.vhost,
        **_who(event),
    }
    return [(event.name, headers)]


def _with_attributes(event: Event) -> list[Sent]:
    """Return an event whose attributes are its headers; some are field tables."""
    attributes = {
        name: table_terms(value) if isinstance(value, dict) else value
        for name, value in event.attributes.items()
    }
    return [(event.name, {**attributes, **_who(event)})]


def _connection_created(event: Event) -> list[Sent]:
    name = str(event.attributes.get("name", ""))
    headers = {
        **_with_attributes(event)[0][1],
        **endpoints(name),
        "pid": name,
        "node": node_name(),
        "protocol": PROTOCOL,
        "type": "network",
        "user": event.actor.user,
        "vhost": event.vhost,
    }
    return [(event.name, headers)]


def _connection_closed(event: Event) -> list[Sent]:
    name = str(event.attributes.get("name", ""))
    headers = {**_with_attributes(event)[0][1], "pid": name, "node": node_name()}
    del headers["user_who_performed_action"]
    return [(event.name, headers)]


def _authentication(event: Event) -> list[Sent]:
    connection = str(event.attributes.get("connection_name", ""))
    where = endpoints(connection) if connection else {}
    where.pop("port", None)
    headers: Headers = {
        "name": event.actor.user,
        "connection_name": connection,
        "connection_type": "network",
        "protocol": PROTOCOL,
        "auth_mechanism": event.attributes.get("auth_mechanism", ""),
        "ssl": event.attributes.get("ssl", False),
        **where,
    }
    if event.name.endswith(".failure"):
        headers["error"] = event.details.get("reason", "")
    return [(event.name, headers)]


def _vhost_created(event: Event) -> list[Sent]:
    headers = {
        "name": event.object_name,
        "description": event.details.get("description", ""),
        "tags": event.details.get("tags", "") or "",
        "default_queue_type": event.details.get("default_queue_type", "") or "undefined",
        "metadata": "#{}",
        "tracing": False,
        "cluster_state": {node_name(): "running"},
        **_who(event),
    }
    return [(event.name, headers)]


def _of_user(event: Event) -> list[Sent]:
    return [(event.name, {"name": event.object_name, **_who(event)})]


def _user_created(event: Event) -> list[Sent]:
    return [*_of_user(event), ("user.tags.set", _tags(event))]


def _user_tags(event: Event) -> list[Sent]:
    return [(event.name, _tags(event))]


def _tags(event: Event) -> Headers:
    tags: Any = event.details.get("tags", ())
    return {"name": event.object_name, "tags": list(tags), **_who(event)}


def _permission(event: Event) -> list[Sent]:
    headers = {
        "user": event.object_name,
        "vhost": event.vhost,
        **_picked(event, "configure", "write", "read", "exchange"),
        **_who(event),
    }
    return [(event.name, headers)]


def _policy(event: Event) -> Headers:
    return {
        **_named(event),
        **_picked(event, "pattern", "definition", "priority", "apply-to"),
    }


def _policy_event(event: Event) -> list[Sent]:
    return [(event.name, _policy(event))]


def _operator_policy_set(event: Event) -> list[Sent]:
    value = _picked(event, "pattern", "definition", "priority", "apply-to")
    parameter = {**_named(event), "component": "operator_policy", "value": value}
    return [("parameter.set", parameter), ("policy.set", _policy(event))]


def _operator_policy_cleared(event: Event) -> list[Sent]:
    named = _named(event)
    parameter = {**named, "component": "operator_policy"}
    return [("parameter.cleared", parameter), ("operator.policy.cleared", named)]


def _vhost_limits(event: Event) -> list[Sent]:
    who = {"name": _LIMITS, "vhost": event.object_name, **_who(event)}
    parameter: Headers = {**who, "component": "vhost-limits"}
    if event.name.endswith(".cleared"):
        return [("parameter.cleared", parameter), (event.name, who)]
    parameter["value"] = dict(event.details)
    return [("parameter.set", parameter), (event.name, {**event.details, **who})]


def _user_limits(event: Event) -> list[Sent]:
    headers = {**event.details, "name": _LIMITS, "username": event.object_name, **_who(event)}
    return [(event.name, headers)]


def _global_parameter(event: Event) -> list[Sent]:
    headers = {"component": "global", "name": event.object_name, **_who(event)}
    return [(event.name.removeprefix("global_"), headers)]


def _alarm(event: Event) -> list[Sent]:
    return [(event.name, {"source": event.object_name, "node": node_name()})]


_MAKERS: Final[Mapping[str, Callable[[Event], list[Sent]]]] = {
    "queue.created": _queue_created,
    "queue.deleted": _only_named,
    "exchange.created": _exchange_created,
    "exchange.deleted": _only_named,
    "binding.created": _binding,
    "binding.deleted": _binding,
    "connection.created": _connection_created,
    "connection.closed": _connection_closed,
    "channel.created": _with_attributes,
    "channel.closed": _with_attributes,
    "consumer.created": _with_attributes,
    "consumer.deleted": _with_attributes,
    "user.authentication.success": _authentication,
    "user.authentication.failure": _authentication,
    "vhost.created": _vhost_created,
    "vhost.deleted": _of_user,
    "user.created": _user_created,
    "user.deleted": _of_user,
    "user.password.changed": _of_user,
    "user.password.cleared": _of_user,
    "user.tags.set": _user_tags,
    "permission.created": _permission,
    "permission.deleted": _permission,
    "topic.permission.created": _permission,
    "topic.permission.deleted": _permission,
    "policy.set": _policy_event,
    "policy.cleared": _policy_event,
    "operator_policy.set": _operator_policy_set,
    "operator_policy.cleared": _operator_policy_cleared,
    "vhost.limits.set": _vhost_limits,
    "vhost.limits.cleared": _vhost_limits,
    "user.limits.set": _user_limits,
    "user.limits.cleared": _user_limits,
    "global_parameter.set": _global_parameter,
    "global_parameter.cleared": _global_parameter,
    "alarm.set": _alarm,
    "alarm.cleared": _alarm,
}
