"""Shows the records of logs, for people and for programs: one, or those that a browse selects."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.values import octets_json, text_json, time_text
from amqp_server.broker.header_filter import matches
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.properties import decode_properties
from amqp_server.protocol.table_json import table_to_json
from appendlog import decode_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.broker.header_filter import HeaderFilter


def record_view(
    offset: int, timestamp_ns: int, message: bytes, body_bytes_max: int | None
) -> dict[str, Any]:
    """Return a record as JSON values.

    Args:
        offset: Offset of the record.
        timestamp_ns: Time of the append in ns since 1970 UTC; 0 if it is unknown.
        message: Content of the record.
        body_bytes_max: Bytes of the body to show; None for all.
    """
    view: dict[str, Any] = {
        "offset": offset,
        "timestamp": time_text(timestamp_ns),
        "timestamp_ns": timestamp_ns,
        "message_bytes": len(message),
    }
    try:
        parts = decode_message(message)
    except ValueError as error:
        return {**view, "error": str(error)}
    body = parts.body if body_bytes_max is None else parts.body[:body_bytes_max]
    return {
        **view,
        **octets_json("exchange", parts.exchange),
        **octets_json("routing_key", parts.routing_key),
        "is_persistent": parts.is_persistent,
        "properties_bytes": len(parts.properties),
        "properties": _properties(parts.properties),
        "body_bytes": len(parts.body),
        **octets_json("body", _whole_characters(body, is_cut=len(body) < len(parts.body))),
        "is_body_cut": len(body) < len(parts.body),
    }


def _whole_characters(body: bytes, *, is_cut: bool) -> bytes:
    """Return a prefix of a text without a character that the cut has split."""
    if not is_cut:
        return body
    for end in range(len(body), max(len(body) - 4, 0), -1):
        try:
            body[:end].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return body[:end]
    return body


def _properties(octets: bytes) -> dict[str, Any]:
    try:
        properties = decode_properties(octets)
    except AmqpError as error:
        return {"error": str(error), **octets_json("octets", octets)}
    shown: dict[str, Any] = {}
    for each in dataclasses.fields(properties):
        value = getattr(properties, each.name)
        if isinstance(value, str):
            shown |= text_json(each.name, value)
        elif isinstance(value, dict):
            shown[each.name] = table_to_json(value)
        elif value is not None:
            shown[each.name] = value
    return shown


def browsed_rows(
    records: Iterable[tuple[int, int, bytes, str]],
    state: str,
    filters: Sequence[HeaderFilter],
    body_bytes_max: int | None,
) -> Iterator[dict[str, Any]]:
    """Return the matching records as JSON values.

    Args:
        records: Offset, append time in ns (0: unknown), message and state of each record.
        state: State of the wanted records; empty for all.
        filters: Headers that wanted records must all have.
        body_bytes_max: Bytes of each body to show; None for all.
    """
    for offset, timestamp_ns, message, its_state in records:
        if (state and its_state != state) or not matches(message, filters):
            continue
        view = record_view(offset, timestamp_ns, message, body_bytes_max)
        yield {"offset": offset, "state": str(its_state), **view}
