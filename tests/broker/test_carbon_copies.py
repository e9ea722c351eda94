"""CC and BCC: which keys a message names beside its own, and what is left of it."""

import pytest

from amqp_server.broker.routing.carbon_copies import may_have_copies, take_copies
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_values import FieldValue, PythonValue
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.tables import table_of
from appendlog.layout.message import HAS_HEADERS, decode_message, encode_message


def with_headers(headers: dict[str, PythonValue], body: bytes = b"body") -> bytes:
    properties = Properties(
        content_type="text/plain", headers=table_of(headers), correlation_id="c", reply_to="r"
    )
    return encode_message(HAS_HEADERS, b"x", b"key", properties.encode(), body)


def test_keys_of_both_headers_are_taken_in_order() -> None:
    keys, _ = take_copies(with_headers({"BCC": ["c"], "a": 1, "CC": ["a", "b", "a"]}))

    assert keys == ("a", "b", "a", "c")


def test_only_bcc_leaves_the_message_and_the_rest_stays_as_it_was() -> None:
    message = with_headers({"a": 1, "BCC": ["c"], "CC": ["b"], "z": {"BCC": ["nested"]}})

    _, stored = take_copies(message)

    assert stored == with_headers({"a": 1, "CC": ["b"], "z": {"BCC": ["nested"]}})


def test_octets_that_no_codec_would_write_survive_beside_bcc() -> None:
    odd = b"\x01bt\x07" + b"\x01bt\x01"  # a boolean of 7, and its key twice
    bcc = b"\x03BCCA\x00\x00\x00\x06S\x00\x00\x00\x01q"
    table = len(odd + bcc).to_bytes(4, "big") + odd + bcc
    message = encode_message(HAS_HEADERS, b"", b"", b"\x20\x00" + table, b"body")

    keys, stored = take_copies(message)

    assert keys == ("q",)
    assert decode_message(stored).properties == b"\x20\x00" + len(odd).to_bytes(4, "big") + odd
    assert decode_message(stored).body == b"body"


def test_bcc_alone_leaves_empty_headers() -> None:
    _, stored = take_copies(with_headers({"BCC": ["c"]}))

    assert decode_properties(decode_message(stored).properties).headers == {}


def test_items_that_are_no_strings_are_passed_over() -> None:
    values: list[PythonValue] = [1, "a", None, FieldValue(b"x", b"octets"), ["b"]]

    assert take_copies(with_headers({"CC": values}))[0] == ("a",)


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("q", "longstr"), (1, "signedint"), (True, "bool"), ({"a": 1}, "table"), (None, "void")],
)
def test_a_header_that_is_no_array_is_refused(name: str, value: PythonValue, kind: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        take_copies(with_headers({name: value}))

    assert refused.value.reply_text == (
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}'
    )
    assert (refused.value.class_id, refused.value.method_id) == (60, 40)


@pytest.mark.parametrize("body_bytes", [0, 10, 5000])
def test_the_names_are_seen_in_headers_and_not_in_a_large_body(body_bytes: int) -> None:
    assert may_have_copies(with_headers({"CC": []}, b"." * body_bytes))
    assert may_have_copies(with_headers({"BCC": []}, b"." * body_bytes))
    assert not may_have_copies(with_headers({"cc": [], "CCC": []}, b"." * body_bytes))
    assert not may_have_copies(with_headers({"a": 1}, b"\x02CC" * 1000))
