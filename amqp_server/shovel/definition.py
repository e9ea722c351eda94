"""Definition of a shovel: the value of its parameter, checked as RabbitMQ checks it.

Source: RabbitMQ's shovel plugin, dynamic shovels; the texts are those of RabbitMQ 3.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from amqp_server.base.erlang_text import erlang_text
from amqp_server.shovel.link.ack_mode import PREFETCH_COUNT, AckMode
from amqp_server.shovel.link.amqp_uri import DEFAULT_VHOST, AmqpUri
from amqp_server.shovel.link.errors import UriError

COMPONENT: Final = "shovel"
"""Component of the parameters that are shovels."""
RECONNECT_SECONDS: Final = 5
RECONNECT_SECONDS_MAX: Final = 86_400
PREFETCH_MAX: Final = 65_535
URIS_MAX: Final = 32
LOCAL: Final = "local"
"""Protocol whose addresses all mean the broker that runs the shovel."""
_PROTOCOLS: Final = ("amqp091", LOCAL)
_NAME_BYTES_MAX: Final = 255
_ACK_MODES: Final = ("no-ack", "on-publish", "on-confirm")
_NEVER: Final = "never"
_QUEUE_LENGTH: Final = "queue-length"
_PROPERTY_KINDS: Final = {
    "content_type": "text",
    "content_encoding": "text",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "text",
    "reply_to": "text",
    "expiration": "text",
    "message_id": "text",
    "timestamp": "number",
    "type": "text",
    "user_id": "text",
    "app_id": "text",
    "cluster_id": "text",
}
_KINDS: Final = {
    "src-protocol": "protocol",
    "dest-protocol": "protocol",
    "src-uri": "uri",
    "dest-uri": "uri",
    "src-queue": "name",
    "src-exchange": "name",
    "src-exchange-key": "name",
    "dest-queue": "name",
    "dest-exchange": "name",
    "dest-exchange-key": "name",
    "src-queue-args": "table",
    "src-consumer-args": "table",
    "dest-queue-args": "table",
    "src-prefetch-count": "prefetch",
    "prefetch-count": "prefetch",
    "ack-mode": "ack-mode",
    "src-delete-after": "delete-after",
    "delete-after": "delete-after",
    "reconnect-delay": "delay",
    "src-predeclared": "boolean",
    "dest-predeclared": "boolean",
    "dest-add-forward-headers": "boolean",
    "add-forward-headers": "boolean",
    "dest-add-timestamp-header": "boolean",
    "dest-publish-properties": "properties",
    "publish-properties": "properties",
}
"""The keys of a shovel, and what their values are."""


class ShovelError(ValueError):
    """A value is no shovel.

    Attributes:
        faults: Faults of the definition, a text for each.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Side:
    """Where a shovel takes messages from, or where it brings them.

    Attributes:
        protocol: Its name in the status.
        uris: Addresses, of which the first that works is used.
        queue: Name of the queue; None if the other two are given.
        exchange: Name of the exchange; None at the destination: that of each message.
        routing_key: Routing key; None at the destination: that of each message.
        queue_arguments: Arguments with which a missing queue is declared.
        is_predeclared: Whether a missing queue is an error.
    """

    protocol: str
    uris: tuple[AmqpUri, ...]
    queue: str | None
    exchange: str | None
    routing_key: str | None
    queue_arguments: dict[str, Any]
    is_predeclared: bool

    def is_ours(self, uri: AmqpUri) -> bool:
        """Return whether an address means the broker that runs the shovel."""
        return uri.is_local or self.protocol == LOCAL


@dataclass(frozen=True, slots=True)
class ShovelDefinition:
    """One shovel.

    Attributes:
        source: Side from which messages come.
        destination: Side to which they go.
        prefetch: Unacked messages at the source.
        consumer_arguments: Arguments of the consumer.
        ack_mode: When the source may forget a message.
        limit: Messages that it moves before it deletes itself; None: all that come.
        ends_at_queue_length: Whether the limit is what the queue holds when the shovel starts.
        reconnect_seconds: Wait after a failure; 0: it is not started again.
        adds_forward_headers: Whether each message says which shovel has moved it.
        adds_timestamp_header: Whether each message says when it was moved.
        properties: Properties that replace those of each message.
    """

    source: Side
    destination: Side
    prefetch: int
    consumer_arguments: dict[str, Any]
    ack_mode: AckMode
    limit: int | None
    ends_at_queue_length: bool
    reconnect_seconds: float
    adds_forward_headers: bool
    adds_timestamp_header: bool
    properties: dict[str, Any]


def parse_shovel(name: str, value: object) -> ShovelDefinition:
    """Return the shovel that the value of a parameter describes.

    Raises:
        ShovelError: It describes none.
    """
    if not isinstance(value, dict):
        raise ShovelError([f"{name} should be an object, actually was {erlang_text(value)}"])
    faults = _faults(name, value)
    if faults:
        raise ShovelError(faults)
    return _definition(value)


def _definition(value: dict[str, Any]) -> ShovelDefinition:
    """Return the shovel of a value that was checked."""

    def get(name: str, default: Any) -> Any:  # noqa: ANN401 - as the key has it
        """Return a value by its present name, or by its old one."""
        old = name.partition("-")[2]
        return value.get(name, value.get(old, default) if old in _KINDS else default)

    after = get("src-delete-after", _NEVER)
    return ShovelDefinition(
        source=_side(value, "src", "src-queue-args"),
        destination=_side(value, "dest", "dest-queue-args"),
        prefetch=get("src-prefetch-count", PREFETCH_COUNT),
        consumer_arguments=get("src-consumer-args", {}),
        ack_mode=AckMode(get("ack-mode", AckMode.ON_CONFIRM.value)),
        limit=after if isinstance(after, int) else None,
        ends_at_queue_length=after == _QUEUE_LENGTH,
        reconnect_seconds=max(0, get("reconnect-delay", RECONNECT_SECONDS)),
        adds_forward_headers=get("dest-add-forward-headers", False),
        adds_timestamp_header=get("dest-add-timestamp-header", False),
        properties=get("dest-publish-properties", {}),
    )


def local_vhosts(definition: ShovelDefinition) -> set[str]:
    """Return the virtual hosts of this broker in which a shovel works without a login."""
    return {
        vhost_of(uri)
        for side in (definition.source, definition.destination)
        for uri in side.uris
        if side.is_ours(uri)
    }


def vhost_of(uri: AmqpUri) -> str:
    """Return the virtual host that an address names."""
    return DEFAULT_VHOST if uri.vhost is None else uri.vhost


def _side(value: dict[str, Any], prefix: str, arguments: str) -> Side:
    uris = value[f"{prefix}-uri"]
    return Side(
        protocol=value.get(f"{prefix}-protocol", "amqp091"),
        uris=tuple(AmqpUri.parse(each) for each in ([uris] if isinstance(uris, str) else uris)),
        queue=value.get(f"{prefix}-queue"),
        exchange=value.get(f"{prefix}-exchange"),
        routing_key=value.get(f"{prefix}-exchange-key"),
        queue_arguments=value.get(arguments, {}),
        is_predeclared=value.get(f"{prefix}-predeclared", False),
    )


def _faults(name: str, value: dict[str, Any]) -> list[str]:
    for side in ("src-protocol", "dest-protocol"):
        if value.get(side) == "amqp10":
            return [f"{side} amqp10 is not supported: this server moves messages with amqp091"]
    found = _faults_of_ends(value)
    unknown = sorted(key for key in value if key not in _KINDS)
    if unknown:
        terms = ",".join(f"{{{erlang_text(key)},{erlang_text(value[key])}}}" for key in unknown)
        found.append(f"Unrecognised terms [{terms}] in {name}")
    for key in sorted(_KINDS):
        if key in value:
            fault = _CHECKS[_KINDS[key]](key, value[key])
            found += [fault] if isinstance(fault, str) else fault
        elif key in ("src-uri", "dest-uri"):
            found.append(f'Key "{key}" not found in {name}')
    return found


def _faults_of_ends(value: dict[str, Any]) -> list[str]:
    """Return what is wrong with keys that belong together."""
    found = []
    if "src-queue" in value and "src-exchange" in value:
        found.append("Cannot specify 'src-exchange' and 'src-queue'")
    elif "src-queue" not in value and "src-exchange" not in value:
        found.append("Must specify 'src-exchange' or 'src-queue'")
    if "dest-queue" in value and "dest-exchange" in value:
        found.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    after = value.get("src-delete-after", value.get("delete-after"))
    if value.get("ack-mode") == "no-ack" and isinstance(after, int):
        found.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    return found


def _protocol_fault(key: str, value: object) -> str | list[str]:
    if value in _PROTOCOLS:
        return []
    return f"{key} should be one of amqp091, local, actually was {erlang_text(value)}"


def _uri_fault(key: str, value: object) -> str | list[str]:
    if isinstance(value, list):
        if not 0 < len(value) <= URIS_MAX:
            return f"{key} should have 1 to {URIS_MAX} addresses, actually had {len(value)}"
        found: list[str] = []
        for each in value:
            if not isinstance(each, str):
                return f"{key} should be list, actually was {erlang_text(each)}"
            fault = _uri_fault(key, each)
            found += [fault] if isinstance(fault, str) else fault
        return found
    if not isinstance(value, str):
        return f"{key} should be list, actually was {erlang_text(value)}"
    try:
        AmqpUri.parse(value)
    except UriError as error:
        # A password may be in it, and may be why it is malformed.
        return f"{key} not a valid URI: {error}"
    return []


def _name_fault(key: str, value: object) -> str | list[str]:
    if not isinstance(value, str):
        return f"{key} should be binary, actually was {erlang_text(value)}"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{key} should be UTF-8"
    if size > _NAME_BYTES_MAX:
        return f"{key} should have at most {_NAME_BYTES_MAX} bytes, actually had {size}"
    return []


def _number_fault(key: str, value: object, most: float, kinds: tuple[type, ...]) -> str | list[str]:
    if type(value) not in (int, float):
        return f"{key} should be a number, actually was {erlang_text(value)}"
    assert isinstance(value, int | float), "checked"
    if not isinstance(value, kinds) or not 0 <= value <= most:
        what = "whole number" if kinds == (int,) else "number"
        return f"{key} should be a {what} from 0 to {most}, actually was {erlang_text(value)}"
    return []


def _prefetch_fault(key: str, value: object) -> str | list[str]:
    return _number_fault(key, value, PREFETCH_MAX, (int,))


def _delay_fault(key: str, value: object) -> str | list[str]:
    return _number_fault(key, value, RECONNECT_SECONDS_MAX, (int, float))


def _ack_mode_fault(key: str, value: object) -> str | list[str]:
    if not isinstance(value, str):
        return f"{key} should be binary, actually was {erlang_text(value)}"
    if value not in _ACK_MODES:
        modes = ",".join(erlang_text(each) for each in _ACK_MODES)
        return f"{key} should be one of [{modes}], actually was {erlang_text(value)}"
    return []


def _delete_after_fault(key: str, value: object) -> str | list[str]:
    if value in (_NEVER, _QUEUE_LENGTH) or (type(value) is int and value >= 0):
        return []
    return (
        f'{key} should be a number greater than or equal to 0, "never" or "queue-length", '
        f"actually was {erlang_text(value)}"
    )


def _boolean_fault(key: str, value: object) -> str | list[str]:
    if isinstance(value, bool):
        return []
    return f"{key} should be boolean, actually was {erlang_text(value)}"


def _table_fault(key: str, value: object) -> str | list[str]:
    if isinstance(value, dict):
        return []
    return f"{key} should be an object, actually was {erlang_text(value)}"


def _properties_fault(key: str, value: object) -> str | list[str]:
    if not isinstance(value, dict):
        return f"{key} not a list {erlang_text(value)}"
    found: list[str] = []
    unknown = sorted(each for each in value if each not in _PROPERTY_KINDS)
    if unknown:
        terms = ",".join(f"{{{erlang_text(each)},{erlang_text(value[each])}}}" for each in unknown)
        found.append(f"Unrecognised terms [{terms}] in {key}")
    for name in sorted(_PROPERTY_KINDS.keys() & value.keys()):
        kind = _PROPERTY_KINDS[name]
        if kind == "text":
            fault = _name_fault(name, value[name])
        else:
            most = 255 if kind == "octet" else 2**63 - 1
            fault = _number_fault(name, value[name], most, (int,))
        found += [fault] if isinstance(fault, str) else fault
    return found


_CHECKS: Final = {
    "protocol": _protocol_fault,
    "uri": _uri_fault,
    "name": _name_fault,
    "table": _table_fault,
    "prefetch": _prefetch_fault,
    "ack-mode": _ack_mode_fault,
    "delete-after": _delete_after_fault,
    "delay": _delay_fault,
    "boolean": _boolean_fault,
    "properties": _properties_fault,
}
