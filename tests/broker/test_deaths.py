"""The history of a dead letter: kept as octets, the same as if it were decoded each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.transfers import deaths as module
from amqp_server.broker.transfers.dead_letter import Death, stamp
from amqp_server.broker.transfers.deaths import take_deaths
from amqp_server.protocol import tables
from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.field_values import (
    TABLE_DEPTH_MAX,
    FieldValue,
    Table,
    field_value,
    table_of,
)
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.property_octets import (
    HEADERS,
    find_property,
    replace_property,
    with_property,
)
from amqp_server.protocol.strings import encode_longstr, encode_shortstr
from amqp_server.protocol.tables import decode_table, encode_table, take_array
from appendlog.layout.message import ALL_DEATHS

DEATH = Death("q", "expired", 1_700_000_000)
HOPS: Final = 300

names = st.sampled_from(["q", "r", "grün"])
fields = st.one_of(
    st.integers(-5, 5), st.booleans(), st.text(max_size=3), st.none(), st.just({"deep": [1, "a"]})
)
deaths = st.one_of(
    fields,
    st.fixed_dictionaries(
        {},
        optional={
            "queue": st.one_of(names, fields),
            "reason": st.one_of(st.sampled_from(["expired", "rejected"]), fields),
            "count": st.one_of(st.integers(0, 9), fields),
            "other": fields,
        },
    ),
)
headers = st.dictionaries(
    st.sampled_from(["x-death", "CC", "a", "x-first-death-queue", "x-last-death-reason"]),
    st.one_of(fields, st.lists(deaths, max_size=4)),
    max_size=5,
)


def history(hops: int) -> bytes:
    """Return the properties of a message that has come through so many queues."""
    octets = Properties().encode()
    for number in range(hops):
        octets = stamp(
            octets, b"", b"key", Death(f"q{number}", "expired", number), ALL_DEATHS, "k"
        ).properties
    return octets


def reference(properties: bytes, death: Death, new_key: str | None) -> Table:
    """Return the headers of a dead letter, as RabbitMQ makes them of decoded ones."""
    headers = dict(decode_properties(properties).headers or {})
    copies = headers["CC"].value if "CC" in headers else None
    keys = [b"key"]
    if isinstance(copies, list):
        keys += [each.value for each in copies if each.kind == b"S"]
    old = headers.get("x-death")
    known = old.value if old is not None and isinstance(old.value, list) else None
    place = {"queue": field_value(death.queue), "reason": field_value(death.reason)}
    known_tables = [each.value for each in known or () if isinstance(each.value, dict)]
    same = [each for each in known_tables if place.items() <= each.items()]
    counts = [each["count"].value if "count" in each else 1 for each in same]
    count = sum(each if isinstance(each, int) else 1 for each in counts) + 1
    if same:
        latest = same[0] | {"count": FieldValue(b"l", count)}
    else:
        latest = {
            "count": FieldValue(b"l", 1),
            "reason": place["reason"],
            "queue": place["queue"],
            "time": FieldValue(b"T", death.seconds),
            "exchange": FieldValue(b"S", b"x"),
            "routing-keys": FieldValue(b"A", [FieldValue(b"S", key) for key in keys]),
        }
    if known is not None:
        latest = dict(sorted(latest.items()))
    for moment in ("last",) if "x-death" in headers else ("first", "last"):
        headers[f"x-{moment}-death-exchange"] = FieldValue(b"S", b"x")
        for part, value in place.items():
            headers[f"x-{moment}-death-{part}"] = value
    others = [each for each in known_tables if not place.items() <= each.items()]
    headers["x-death"] = FieldValue(b"A", [FieldValue(b"F", each) for each in (latest, *others)])
    if new_key is not None:
        headers.pop("CC", None)
    return headers


@given(headers, st.sampled_from([None, "new"]))
def test_a_death_is_added_as_to_decoded_headers(
    values: dict[str, object], new_key: str | None
) -> None:
    properties = Properties(
        content_type="text/plain",
        headers=table_of(values),  # type: ignore[arg-type]
        delivery_mode=2,
        message_id="m",
    )
    octets = properties.encode()

    stamped = stamp(octets, b"x", b"key", DEATH, ALL_DEATHS, new_key).properties

    wanted = reference(octets, DEATH, new_key)
    assert stamped == replace(properties, headers=wanted).encode()


def with_raw_headers(entries: bytes) -> bytes:
    return with_property(Properties(delivery_mode=2).encode(), HEADERS, encode_longstr(entries))


def entry(value: bytes, name: str = "x-death") -> bytes:
    return encode_shortstr(name) + value


@pytest.mark.parametrize(
    "entries",
    [
        entry(b"A" + encode_longstr(b"F" + encode_longstr(b"\x05queueZ"))),
        entry(b"A" + encode_longstr(b"F" + encode_longstr(b"\x05queue"))),
        entry(b"A" + encode_longstr(b"F\0\0\0\x09")),
        entry(b"A" + encode_longstr(b"Z")),
        entry(b"A\0\0\0\xff"),
        entry(b"A" + encode_longstr(b"I\0\0")),
        b"\x05other",
    ],
)
def test_headers_that_cannot_be_decoded_stay_unchanged_behind_the_deaths(entries: bytes) -> None:
    sound = entry(b"t\x01", "sound")
    octets = with_raw_headers(sound + entries)
    with pytest.raises(FieldSyntaxError):
        decode_properties(octets)

    for _ in range(2):
        octets = stamp(octets, b"x", b"key", DEATH, ALL_DEATHS, None).properties

    start, end = find_property(octets, HEADERS)
    assert octets.endswith(entries, start, end)
    stamped = decode_properties(
        replace_property(octets, HEADERS, encode_longstr(octets[start + 4 : end - len(entries)]))
    )
    assert stamped.delivery_mode == 2
    once = reference(with_raw_headers(sound), DEATH, None)
    assert stamped.headers == reference(Properties(headers=once).encode(), DEATH, None)


def test_headers_that_cannot_be_decoded_do_not_hide_a_cycle() -> None:
    octets = with_raw_headers(entry(b"Z", "broken"))
    first = stamp(octets, b"x", b"key", DEATH, ALL_DEATHS, None)
    assert first.cycle == {DEATH.queue}
    again = stamp(first.properties, b"x", b"key", Death("r", "expired", 1), ALL_DEATHS, None)
    assert again.cycle == {DEATH.queue, "r"}


def test_of_a_repeated_x_death_the_last_one_counts() -> None:
    table = encode_table(table_of({"queue": "other", "reason": "expired"}))
    array = b"A" + encode_longstr(b"F" + table)
    for entries in (entry(b"V") + entry(array), entry(array) + entry(b"V")):
        octets = with_raw_headers(entries)

        stamped = decode_properties(stamp(octets, b"x", b"key", DEATH, ALL_DEATHS, None).properties)

        assert stamped.headers == reference(octets, DEATH, None)


@pytest.mark.parametrize("queue", [DEATH.queue, "other"])
def test_a_death_may_nest_as_deep_as_headers_may(queue: str) -> None:
    deep: dict[str, object] = {}
    # The headers, the list and the death itself are levels too.
    for _ in range(TABLE_DEPTH_MAX - 4):
        deep = {"deep": deep}
    death = {"queue": queue, "reason": "expired", "deep": deep}
    octets = Properties(headers=table_of({"x-death": [death]})).encode()  # type: ignore[list-item]

    stamped = stamp(octets, b"x", b"key", DEATH, ALL_DEATHS, None).properties

    assert decode_properties(stamped).headers == reference(octets, DEATH, None)


def test_an_array_is_taken_out_of_a_table() -> None:
    table = encode_table(table_of({"a": 1, "list": ["x", 5], "z": "end"}))

    rest, items = take_array(table, "list")

    assert items == [b"S\0\0\0\x01x", b"I\0\0\0\x05"]
    assert decode_table(rest)[0] == table_of({"a": 1, "list": None, "z": "end"})
    assert take_array(table, "z") == (table, None)
    assert take_array(table, "none") == (table, None)


def test_a_long_history_is_not_decoded_at_each_death(monkeypatch: pytest.MonkeyPatch) -> None:
    octets = history(HOPS)
    decoded = 0
    decode_value = tables._decode_value

    def counted(data: bytes, position: int, depth: int) -> tuple[FieldValue, int]:
        nonlocal decoded
        decoded += 1
        return decode_value(data, position, depth)

    monkeypatch.setattr(tables, "_decode_value", counted)
    stamped = stamp(octets, b"", b"key", DEATH, ALL_DEATHS, "k")

    # The newest table has six fields and a key; the rest is one header each.
    assert decoded < 30
    assert len(stamped.cycle) == HOPS + 1


def test_a_large_table_is_not_remembered() -> None:
    table = table_of({"queue": "q", "reason": "expired", "text": "x" * 10_000})
    octets = Properties(headers=table_of({"x-death": [table]})).encode()
    before = module._remembered.cache_info().currsize

    _, deaths = take_deaths(octets)

    assert deaths is not None
    assert deaths[0].table == table
    assert module._remembered.cache_info().currsize == before
