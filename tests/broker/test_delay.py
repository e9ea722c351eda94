"""How long a message asks to be kept, and what it looks like when it is let go."""

import pytest

from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.transfers.delay import delay_ms, with_delay_negated
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_values import FieldValue, PythonValue
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.tables import table_of
from appendlog.layout.message import HAS_HEADERS, decode_message, encode_message
from tests.broker.bindings import bind, sent


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1500, 1500),
        (0, 0),
        (-5, 0),
        (FieldValue(b"b", 5), 5),
        (FieldValue(b"l", 2**40), 2**40),
        ("250", 250),
        ("soon", 0),
        ("", 0),
        ("9" * 19, 2**63 - 1),
        (1.9, 1),
        (float("nan"), 0),
        (float("inf"), 0),
        (True, 0),
        (None, 0),
        ([5], 0),
        (FieldValue(b"T", 5), 0),
    ],
)
def test_a_delay_is_a_number_of_milliseconds_above_0(value: PythonValue, expected: int) -> None:
    assert delay_ms(table_of({"x-delay": value})) == expected


def test_without_the_header_there_is_no_delay() -> None:
    assert delay_ms({}) == 0


@pytest.mark.parametrize(
    ("sent_value", "negated"),
    [
        (FieldValue(b"I", 1500), FieldValue(b"I", -1500)),
        (FieldValue(b"S", b"250"), FieldValue(b"I", -250)),
        (FieldValue(b"l", 2**31), FieldValue(b"I", -(2**31))),
        (FieldValue(b"l", 2**31 + 1), FieldValue(b"l", -(2**31) - 1)),
        (FieldValue(b"l", 2**63 - 1), FieldValue(b"l", -(2**63) + 1)),
    ],
)
def test_a_message_goes_on_with_its_delay_negated(
    sent_value: FieldValue, negated: FieldValue
) -> None:
    headers = table_of({"a": 1, "x-delay": sent_value, "b": "two"})
    properties = Properties(content_type="t", headers=headers, message_id="m")
    message = encode_message(HAS_HEADERS, b"x", b"key", properties.encode(), b"body")

    view = decode_message(with_delay_negated(message, headers))

    after = decode_properties(view.properties)
    assert after.headers == table_of({"a": 1, "b": "two", "x-delay": negated})
    assert (after.content_type, after.message_id) == ("t", "m")
    assert (view.exchange, view.routing_key, view.body) == (b"x", b"key", b"body")


@pytest.mark.parametrize("kind", sorted(set(MATCHERS) - {"x-delayed-message"}))
def test_a_delayed_exchange_routes_as_any_other_type(kind: str) -> None:
    matcher = MATCHERS["x-delayed-message"](table_of({"x-delayed-type": kind}))
    binding = bind("1")

    matcher.add(binding)

    assert matcher.routes_singly
    assert list(matcher.match(sent("1"))) == [binding.destination]
    matcher.remove(binding)
    assert not matcher.match(sent("1"))


def test_the_other_type_checks_arguments_and_bindings() -> None:
    make = MATCHERS["x-delayed-message"]
    hashed = {"x-delayed-type": "x-consistent-hash"}

    with pytest.raises(PreconditionFailed, match="Unsupported property: nothing"):
        make(table_of({**hashed, "hash-property": "nothing"}))
    with pytest.raises(PreconditionFailed, match="must be an integer"):
        make(table_of(hashed)).check_binding("heavy", {})


@pytest.mark.parametrize("value", [None, "", "unknown", "x-delayed-message", 1])
def test_a_type_that_is_none_is_refused(value: PythonValue) -> None:
    arguments = {} if value is None else {"x-delayed-type": value}

    with pytest.raises(PreconditionFailed) as refused:
        MATCHERS["x-delayed-message"](table_of(arguments))

    assert refused.value.reply_text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
