"""What a dead letter looks like, and when it has come round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.routing.steps import result_of
from amqp_server.broker.transfers.dead_letter import (
    DeadLetters,
    Death,
    Stamp,
    cycle_of,
    dead_letter,
    deaths_of,
    stamp,
)
from amqp_server.broker.transfers.deaths import KnownDeath, known_death, take_deaths
from amqp_server.protocol.field_values import FieldValue, Table, table_of
from amqp_server.protocol.properties import Properties, decode_properties
from appendlog.layout.message import (
    ALL_DEATHS,
    COUNTED_DEATHS_MAX,
    DEATHS_SHIFT,
    HAS_EXPIRATION,
    HAS_HEADERS,
    PERSISTENT,
    decode_message,
    encode_message,
    published_again,
)

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.broker.virtual_host import VirtualHost

EXPIRED = Death("q", "expired", 1_700_000_000)


def message(properties: Properties = Properties(), flags: int = PERSISTENT) -> bytes:  # noqa: B008
    return encode_message(flags, b"x", b"key", properties.encode(), b"body")


class Letter(NamedTuple):
    message: bytes
    flags: int
    stamp: Stamp

    @property
    def headers(self) -> Table:
        return headers_of(self.message)

    @property
    def routing_keys(self) -> tuple[str, ...]:
        return self.stamp.routing_keys


def letter_of(octets: bytes, death: Death, exchange: str, new_key: str | None) -> Letter:
    view = decode_message(octets)
    since_publish = view.flags >> DEATHS_SHIFT
    stamped = stamp(view.properties, view.exchange, view.routing_key, death, since_publish, new_key)
    dead = dead_letter(view, stamped, exchange)
    return Letter(dead, dead[0], stamped)


def headers_of(octets: bytes) -> Table:
    return decode_properties(decode_message(octets).properties).headers or {}


def known_deaths_of(octets: bytes) -> list[KnownDeath]:
    return take_deaths(decode_message(octets).properties)[1] or []


def test_a_first_death_is_told_with_the_kinds_that_rabbitmq_uses() -> None:
    letter = letter_of(message(), EXPIRED, "dlx", None)

    assert deaths_of(headers_of(letter.message)) == [
        {
            "count": FieldValue(b"l", 1),
            "exchange": FieldValue(b"S", b"x"),
            "queue": FieldValue(b"S", b"q"),
            "reason": FieldValue(b"S", b"expired"),
            "routing-keys": FieldValue(b"A", [FieldValue(b"S", b"key")]),
            "time": FieldValue(b"T", 1_700_000_000),
        }
    ]
    first_and_last = {
        f"x-{moment}-death-{part}": FieldValue(b"S", value)
        for moment in ("first", "last")
        for part, value in {"exchange": b"x", "queue": b"q", "reason": b"expired"}.items()
    }
    assert first_and_last.items() <= headers_of(letter.message).items()


def test_everything_else_of_the_message_stays() -> None:
    properties = Properties(
        content_type="text/plain", headers=table_of({"a": 1}), delivery_mode=2, priority=7,
        user_id="guest", message_id="m",
    )  # fmt: skip
    letter = letter_of(message(properties, PERSISTENT), EXPIRED, "dlx", None)
    view = decode_message(letter.message)
    kept = decode_properties(view.properties)

    assert (view.exchange, view.routing_key, view.body) == (b"dlx", b"key", b"body")
    assert letter.flags == view.flags == PERSISTENT | HAS_HEADERS | ALL_DEATHS << DEATHS_SHIFT
    assert (kept.content_type, kept.priority, kept.user_id, kept.message_id) == (
        "text/plain", 7, "guest", "m",
    )  # fmt: skip
    assert headers_of(letter.message)["a"] == FieldValue(b"I", 1)


def test_its_expiration_is_told_once_and_gone() -> None:
    letter = letter_of(message(Properties(expiration="500"), HAS_EXPIRATION), EXPIRED, "dlx", None)

    assert not letter.flags & HAS_EXPIRATION
    assert decode_properties(decode_message(letter.message).properties).expiration is None
    assert deaths_of(letter.headers)[0]["original-expiration"] == FieldValue(b"S", b"500")


def test_the_same_death_again_counts_up_and_comes_to_the_front() -> None:
    octets = letter_of(message(), EXPIRED, "dlx", None).message
    octets = letter_of(octets, Death("other", "rejected", 2), "dlx", None).message
    letter = letter_of(octets, EXPIRED._replace(seconds=3), "dlx", None)

    deaths = deaths_of(letter.headers)
    assert [(death["queue"].value, death["count"].value) for death in deaths] == [
        (b"q", 2),
        (b"other", 1),
    ]
    assert deaths[0]["time"] == FieldValue(b"T", EXPIRED.seconds), "of the first death"
    assert letter.headers["x-first-death-queue"] == FieldValue(b"S", b"q")
    assert letter.headers["x-last-death-queue"] == FieldValue(b"S", b"q")


def test_a_count_that_a_publisher_made_up_does_not_outgrow_its_field() -> None:
    death = table_of({"queue": "q", "reason": "expired", "count": (1 << 63) - 1})
    known = message(
        Properties(headers={"x-death": FieldValue(b"A", [FieldValue(b"F", death)] * 2)}),
        HAS_HEADERS,
    )
    letter = letter_of(known, EXPIRED, "dlx", None)

    count = deaths_of(headers_of(letter.message))[0]["count"]
    assert count == FieldValue(b"l", (1 << 63) - 1)


def test_several_tables_of_the_same_death_become_one_with_their_sum() -> None:
    deaths = [
        table_of({"queue": "q", "reason": "expired", "count": 2}),
        table_of({"queue": "other", "reason": "expired", "count": 7}),
        table_of({"queue": "q", "reason": "expired", "count": 3}),
    ]
    known = FieldValue(b"A", [FieldValue(b"F", death) for death in deaths])
    octets = message(Properties(headers={"x-death": known}), HAS_HEADERS)

    counts = [
        (death["queue"].value, death["count"].value)
        for death in deaths_of(letter_of(octets, EXPIRED, "dlx", None).headers)
    ]

    assert counts == [(b"q", 6), (b"other", 7)]


def test_one_queue_and_two_reasons_are_two_deaths() -> None:
    octets = letter_of(message(), EXPIRED, "dlx", None).message
    letter = letter_of(octets, EXPIRED._replace(reason="maxlen"), "dlx", None)

    assert [death["reason"].value for death in deaths_of(letter.headers)] == [b"maxlen", b"expired"]


def test_without_a_key_of_the_queue_it_keeps_its_own_and_those_of_cc() -> None:
    copied = message(Properties(headers=table_of({"CC": ["one", "two"]})), HAS_HEADERS)

    assert letter_of(copied, EXPIRED, "dlx", None).routing_keys == ("key", "one", "two")
    assert "CC" in headers_of(letter_of(copied, EXPIRED, "dlx", None).message)


def test_with_a_key_of_the_queue_cc_is_gone_but_told() -> None:
    copied = message(Properties(headers=table_of({"CC": ["one"]})), HAS_HEADERS)
    letter = letter_of(copied, EXPIRED, "dlx", "dead")

    assert letter.routing_keys == ("dead",)
    assert decode_message(letter.message).routing_key == b"dead"
    assert "CC" not in letter.headers
    keys = deaths_of(letter.headers)[0]["routing-keys"]
    assert keys == FieldValue(b"A", [FieldValue(b"S", b"key"), FieldValue(b"S", b"one")])


@pytest.mark.parametrize("nonsense", ["text", 5, ["no table"], None, [{}]])
def test_an_x_death_that_is_none_does_no_harm(nonsense: Any) -> None:  # noqa: ANN401
    octets = message(Properties(headers=table_of({"x-death": nonsense})), HAS_HEADERS)

    death = deaths_of(letter_of(octets, EXPIRED, "dlx", None).headers)[0]

    assert death["queue"] == FieldValue(b"S", b"q")


@pytest.mark.parametrize(
    ("reasons", "cycle"),
    [
        (["expired"], True),
        (["expired", "maxlen"], True),
        (["rejected"], False),
        (["expired", "rejected"], False),
    ],
)
def test_a_round_that_nobody_wanted_is_a_cycle(reasons: list[str], cycle: bool) -> None:
    octets = message()
    for number, reason in enumerate(reversed(reasons), 1):
        octets = letter_of(octets, Death(f"q{number}", reason, number), "dlx", None).message

    visited = cycle_of(known_deaths_of(octets))
    assert ("q1" in visited) == cycle
    assert "elsewhere" not in visited


def test_a_rejection_before_the_message_was_in_the_queue_does_not_excuse_a_cycle() -> None:
    octets = letter_of(message(), Death("before", "rejected", 1), "dlx", None).message
    octets = letter_of(octets, Death("q", "expired", 2), "dlx", None).message

    assert cycle_of(known_deaths_of(octets)) == {"q"}


def died(octets: bytes, *deaths: tuple[str, str]) -> Letter:
    for number, (queue, reason) in enumerate(deaths, 1):
        letter = letter_of(octets, Death(queue, reason, number), "dlx", None)
        octets = letter.message
    return letter


def test_only_deaths_since_the_publish_are_a_cycle() -> None:
    """A client that publishes a dead letter again sends what it came with, deaths too."""
    once = died(message(), ("a", "expired"), ("b", "maxlen"))
    assert once.stamp.cycle == {"a", "b"}
    again = encode_message(
        PERSISTENT | HAS_HEADERS, b"x", b"key", decode_message(once.message).properties, b"body"
    )
    for octets in (again, published_again(once.message)):
        first = died(octets, ("a", "expired"))
        assert first.stamp.cycle == {"a"}
        assert died(octets, ("a", "expired"), ("b", "expired")).stamp.cycle == {"a", "b"}
        counts = [
            (death["queue"].value, death["reason"].value, death["count"].value)
            for death in deaths_of(first.headers)
        ]
        assert counts == [(b"a", b"expired", 2), (b"b", b"maxlen", 1)]
        # The same death again is no other one.
        assert died(first.message, ("a", "expired")).stamp.since_publish == 1


def test_of_many_deaths_behind_an_earlier_life_the_latest_are_a_cycle() -> None:
    early = published_again(died(message(), ("early", "expired")).message)
    hops = [(f"q{number}", "expired") for number in range(COUNTED_DEATHS_MAX + 6)]
    many = died(early, *hops)
    assert many.stamp.since_publish == COUNTED_DEATHS_MAX
    assert many.stamp.cycle == {queue for queue, _ in hops[-COUNTED_DEATHS_MAX:]}
    # Without an earlier life all of them count.
    assert died(message(), *hops).stamp.cycle == {queue for queue, _ in hops}


def test_published_again_is_the_same_message_but_for_its_deaths() -> None:
    octets = died(message(), ("q", "expired")).message
    again = published_again(octets)
    assert again[0] == PERSISTENT | HAS_HEADERS
    assert again[1:] == octets[1:]
    assert published_again(again) is again


def test_only_strings_among_the_deaths_are_queues() -> None:
    deaths: list[Table] = [
        {},
        {"queue": FieldValue(b"F", {})},
        {"queue": FieldValue(b"A", [FieldValue(b"S", b"listed")])},
        {"queue": FieldValue(b"x", b"octets")},
        {"queue": FieldValue(b"S", "grün".encode())},
    ]
    assert cycle_of([known_death(death) for death in deaths]) == {"grün"}


def test_only_strings_among_carbon_copies_are_routing_keys() -> None:
    copies = [FieldValue(b"S", b"copy"), FieldValue(b"x", b"octets"), FieldValue(b"I", 1)]
    headers: Table = {"CC": FieldValue(b"A", copies)}

    letter = letter_of(message(Properties(headers=headers), HAS_HEADERS), EXPIRED, "x", None)

    assert letter.routing_keys == ("key", "copy")
    (death,) = deaths_of(letter.headers)
    expected = [FieldValue(b"S", b"key"), FieldValue(b"S", b"copy")]
    assert death["routing-keys"].value == expected


def test_a_queue_remembers_nothing_of_a_message_that_has_left() -> None:
    """The headers of 300 deaths take half a megabyte, and each queue of a chain had some."""
    places = SimpleNamespace(
        exchanges={"dlx": SimpleNamespace(name="dlx")},
        routing=SimpleNamespace(route_in_steps=no_route),
    )
    settings = QueueSettings(dead_letter_exchange="dlx")
    letters = DeadLetters(cast("VirtualHost", places), "q", settings, lambda: 10**18, no_cycle)
    result_of(letters.forward(message(), "expired"))
    assert letters._stamp.properties
    letters.forget()

    assert (letters._stamped, letters._stamp.properties) == (None, b"")


def no_cycle() -> None:
    pytest.fail("a cycle")


@pytest.mark.parametrize("at_least_once", [False, True])
def test_what_would_circulate_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture, at_least_once: bool
) -> None:
    def route(*_: object) -> Steps[list[Queue]]:
        yield
        return [cast("Queue", SimpleNamespace(name=name)) for name in targets]

    places = SimpleNamespace(
        name="/",
        exchanges={"dlx": SimpleNamespace(name="dlx")},
        routing=SimpleNamespace(route_in_steps=route),
    )
    settings = QueueSettings(dead_letter_exchange="dlx", dead_letters_at_least_once=at_least_once)
    cycles: list[str] = []
    letters = DeadLetters(
        cast("VirtualHost", places), "q", settings, lambda: 10**18, lambda: cycles.append("one")
    )
    targets = ["q", "other"]
    for _ in range(3):
        copy = result_of(letters.forward(message(), "expired"))
        assert [queue.name for queue in copy.queues] == ["other"]
    assert len(cycles) == 3
    targets = ["q"]
    for _ in range(3):
        assert result_of(letters.forward(message(), "expired")).queues == ()
    # What is kept is tried again each second.
    assert len(cycles) == (3 if at_least_once else 6)
    assert [record.getMessage() for record in caplog.records] == [
        "dead letters circulate outcome=dropped vhost=/ queue=q exchange=dlx reason=expired"
    ]
    assert [queue.name for queue in result_of(letters.forward(message(), "rejected")).queues] == [
        "q"
    ]


def no_route(*_: object) -> Steps[list[Queue]]:
    yield
    return []
