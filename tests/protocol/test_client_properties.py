"""A client's own properties are kept, but no client's take much memory."""

import sys
from typing import Any

import pytest
from hypothesis import given

from amqp_server.protocol.client_properties import KEPT_BYTES_MAX, VALUE_BYTES, kept_properties
from amqp_server.protocol.field_values import FieldValue, PythonValue, Table, table_of
from tests.protocol.strategies import tables

OF_JAVA = table_of(
    {
        "product": "RabbitMQ",
        "copyright": "Copyright (c) 2007-2024 Broadcom Inc. and/or its subsidiaries.",
        "capabilities": dict.fromkeys(
            (
                "exchange_exchange_bindings",
                "connection.blocked",
                "authentication_failure_close",
                "basic.nack",
                "publisher_confirms",
                "consumer_cancel_notify",
            ),
            True,
        ),
        "information": "Licensed under the MPL. See https://www.rabbitmq.com/",
        "version": "5.21.0",
        "platform": "Java",
        "connection_name": "orders",
        "team": "orders",
        "replica": 7,
        "deployed": {"by": ["ci", "mia"], "at": 1.5},
    }
)


def memory_of(value: Any) -> int:  # noqa: ANN401 - whatever a table holds
    """Return the bytes of a value and of all that it holds, as Python counts them."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(memory_of(key) + memory_of(each) for key, each in value.items())
    if isinstance(value, list):
        return size + sum(map(memory_of, value))
    if isinstance(value, FieldValue):
        return size + memory_of(value.value)
    return size


def test_what_programs_send_is_kept_as_it_came() -> None:
    kept = kept_properties(OF_JAVA)
    assert kept == OF_JAVA
    assert list(kept) == list(OF_JAVA)


@given(tables)
def test_small_tables_are_kept_whatever_is_in_them(properties: Table) -> None:
    kept = kept_properties(properties)
    if memory_of(properties) < KEPT_BYTES_MAX // 8:
        assert kept == properties
    assert list(kept) == [name for name in properties if name in kept]


NAMES = [f"{number:04}" for number in range(8_000)]


@pytest.mark.parametrize(
    "properties",
    [
        dict.fromkeys(NAMES, True),
        dict.fromkeys(NAMES, "x"),
        {"a": {"b": {"c": dict.fromkeys(NAMES, 1.5)}}},
        {"a": [[True] * 60_000]},
        {"a": [{"b": True}] * 10_000},
        {"a": "x" * 60_000, "b": "y" * 20_000},
        {"product": dict.fromkeys(NAMES, True), "platform": [1] * 9_000},
        {"x" * 128 + name: True for name in NAMES[:400]},
    ],
    ids=["flags", "texts", "nested", "array", "tables", "long", "known", "names"],
)
def test_no_client_takes_more_memory_than_the_bound(properties: dict[str, Any]) -> None:
    kept = kept_properties(table_of(properties))
    assert memory_of(kept) < 1.25 * KEPT_BYTES_MAX
    if "b" in properties:
        assert list(kept) == ["b"], "what fits behind a value that does not"
    else:
        assert kept


def test_what_the_broker_needs_has_room_first_and_tables_keep_their_first_entries() -> None:
    flags = {"consumer_cancel_notify": True, **dict.fromkeys(NAMES, True)}
    properties: dict[str, PythonValue] = {
        "note": "x" * 30_000,
        **dict.fromkeys(NAMES, 1),
        "capabilities": flags,
    }
    kept = kept_properties(table_of({**properties, "product": "pika"}))
    assert list(kept) == ["capabilities", "product"]
    capabilities = kept["capabilities"].value
    assert isinstance(capabilities, dict)
    assert list(capabilities) == list(flags)[: len(capabilities)]
    assert 90 < len(capabilities) < KEPT_BYTES_MAX // VALUE_BYTES
