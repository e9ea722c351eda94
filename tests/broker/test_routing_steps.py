"""A route is found in steps; bindings may come and go between any two of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from amqp_server.broker.binding import Binding
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing import routing
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.matchers import direct, headers, topic
from amqp_server.broker.routing.steps import result_of
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.methods import BasicPublish
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.tables import table_of
from appendlog.layout.message import HAS_HEADERS, encode_message
from tests.broker.bindings import a_queue

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

BINDINGS = 40
STEP = 4
KEY = "w.v.w"


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (direct, headers, routing, topic):
        monkeypatch.setattr(module, "STEP_VISITS", STEP)


class Place:
    """A virtual host with one exchange, and queues made when first named."""

    def __init__(self, kind: str) -> None:
        self.vhost = VirtualHost("/")
        self.exchange = self.add("source", kind)
        self.queues: dict[str, Queue] = {}

    def add(self, name: str, kind: str) -> Exchange:
        exchange = Exchange(
            name, kind, durable=False, auto_delete=False, internal=False, arguments={}
        )
        self.vhost.add_exchange(exchange)
        return exchange

    def bind(self, queue: str, key: str = KEY, **arguments: Any) -> Binding:  # noqa: ANN401
        found = self.queues.setdefault(queue, a_queue(queue))
        binding = self.vhost.bind(self.exchange, found, key, table_of(arguments))
        assert binding is not None
        return binding

    def unbind(self, binding: Binding) -> None:
        self.vhost.unbind(
            binding.source, binding.destination, binding.routing_key, binding.arguments
        )

    def cut_route(self, at: int, change: Callable[[], None] = lambda: None) -> tuple[set[str], int]:
        """Make a change after some steps; return the names of the queues, and all steps."""
        self.vhost.routing.forget_all()
        steps = self.vhost.routing.route_in_steps(self.exchange, an_envelope())
        count = 0
        while True:
            if count == at:
                change()
            try:
                next(steps)
            except StopIteration as end:
                return {queue.name for queue in end.value}, count
            count += 1


def an_envelope(visits_max: int | None = None) -> Envelope:
    properties = Properties(headers=table_of({"a": "x"})).encode()
    message = encode_message(2, b"", b"", properties, b"")
    return Envelope((KEY,), message, visits_max)


def fill(place: Place) -> None:
    """Bind so that a match has to look at all bindings."""
    for number in range(BINDINGS):
        match place.exchange.type:
            case "headers":
                place.bind(f"q{number}", "", **{"x-match": "any", "a": "x", "b": number})
            case "topic":
                bits = ".#.".join("wv"[number >> at & 1] for at in range(6))
                place.bind(f"q{number}", f"#.{bits}.#")
                place.bind(f"q{number}", "#.v.#")
            case _:
                place.bind(f"q{number}")


KINDS = ["direct", "fanout", "headers", "topic"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_looks_at_many_bindings(kind: str) -> None:
    place = Place(kind)
    fill(place)

    names, count = place.cut_route(-1)

    assert names == {f"q{number}" for number in range(BINDINGS)}
    assert count >= BINDINGS // STEP
    assert set(place.vhost.routing.route(place.exchange, an_envelope())) == set(
        place.queues.values()
    )


@pytest.mark.parametrize("keys", [1, BINDINGS], ids=["of one key", "of many keys"])
def test_a_direct_exchange_takes_a_step_whenever_it_has_found_enough(keys: int) -> None:
    place = Place("direct")
    for number in range(BINDINGS):
        place.bind(f"q{number}", f"k{number % keys}")
    envelope = Envelope(tuple(f"k{number}" for number in range(keys)))

    steps = place.exchange.matcher.match_in_steps(envelope)

    assert sum(1 for _ in steps) == BINDINGS // STEP


def test_no_step_looks_at_many_exchanges() -> None:
    place = Place("fanout")
    chain = [place.exchange, *(place.add(f"e{number}", "fanout") for number in range(BINDINGS))]
    for source, destination in pairwise(chain):
        place.vhost.bind(source, destination, "", {})
    place.exchange = chain[-1]
    place.bind("last")
    place.exchange = chain[0]

    names, count = place.cut_route(-1)

    assert names == {"last"}
    # Each is looked at twice: whether it routes by more than keys, and where it leads.
    assert count >= BINDINGS + BINDINGS // STEP


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_is_always_bound_gets_the_message_whatever_changes(kind: str) -> None:
    def arguments(number: int) -> dict[str, Any]:
        return {"x-match": "any", "a": "x", "c": number} if kind == "headers" else {}

    at = 0
    while True:
        place = Place(kind)
        fill(place)
        goes = [place.bind(f"goes {number}", **arguments(2)) for number in range(2 * STEP)]
        place.bind("stays", **arguments(1))
        moves = place.bind("moves", "#.w" if kind == "topic" else KEY, **arguments(3))

        def change(place: Place = place, moves: Binding = moves, goes: Any = goes) -> None:  # noqa: ANN401
            # Bound anew before the old binding goes: at no time is it unbound.
            place.bind("moves", "w.#" if kind == "topic" else KEY, **arguments(4), d=1)
            place.unbind(moves)
            for binding in goes:
                place.unbind(binding)
            place.bind("comes", **arguments(5))

        names, _ = place.cut_route(at, change)
        if "comes" not in place.queues:
            # The search was over before.
            break
        assert names >= {"stays", "moves"} | {f"q{number}" for number in range(BINDINGS)}
        assert names <= {*place.queues}
        # What is remembered is what the bindings are now.
        final = place.vhost.routing.route(place.exchange, an_envelope())
        expected = {*place.queues} - {f"goes {number}" for number in range(2 * STEP)}
        assert {queue.name for queue in final} == expected
        at += 1
    assert at > BINDINGS // STEP


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_meets_too_much_is_refused(kind: str) -> None:
    place = Place(kind)
    fill(place)
    with pytest.raises(PreconditionFailed, match="more than 39 exchanges, bindings and words"):
        result_of(place.vhost.routing.route_in_steps(place.exchange, an_envelope(39)))
    found = result_of(place.vhost.routing.route_in_steps(place.exchange, an_envelope(10_000)))
    assert len(found) == BINDINGS


def test_words_of_patterns_that_fit_in_part_count_too() -> None:
    place = Place("topic")
    for number in range(1, BINDINGS):
        place.bind("q", ".".join(["#.w"] * number) + ".never")
    key = ".".join("w" * 8)
    with pytest.raises(PreconditionFailed):
        place.exchange.matcher.match(Envelope((key,), None, 20))
    assert not place.exchange.matcher.match(Envelope((key,), None, 1000))


def test_words_that_no_pattern_names_hardly_count() -> None:
    """Thousands of keys with ids in them, beside patterns that name a few words."""
    place = Place("topic")
    for number in range(10):
        place.bind(f"q{number}", f"*.{number}.#")
    keys = tuple(f"id{number}.{number % 10}.rest" for number in range(1000))
    assert len(place.exchange.matcher.match(Envelope(keys, None, 300))) == 10


def test_equal_copies_are_matched_once() -> None:
    place = Place("direct")
    fill(place)
    found = place.exchange.matcher.match(Envelope((KEY,) * 1000))
    assert len(found) == BINDINGS


@pytest.mark.parametrize("affected_max", [1, 256], ids=["all forgotten", "versions"])
def test_a_route_that_was_found_while_bindings_changed_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch, affected_max: int
) -> None:
    monkeypatch.setattr("amqp_server.broker.routing.exchange_graph.AFFECTED_MAX", affected_max)
    payload = BasicPublish(exchange="source", routing_key=KEY).encode()
    count, at = 1, 0
    while at <= count:
        place = Place("fanout")
        first = place.exchange
        place.exchange = place.add("second", "fanout")
        place.vhost.bind(first, place.exchange, "", {})
        for number in range(BINDINGS):
            place.bind(f"q{number}")
        goes = place.bind("goes")
        targets = place.vhost.publish_targets
        # Frames are remembered when they come for the second time.
        targets.find(payload)
        place.vhost.forget_routes()
        steps = targets.find_in_steps(payload)
        count = 0
        for _ in steps:
            if count == at:
                place.unbind(goes)
                place.bind("comes")
            count += 1
        if at >= count:
            place.unbind(goes)
            place.bind("comes")

        names = {queue.name for queue in targets.find(payload).queues}
        assert names == {"comes"} | {f"q{number}" for number in range(BINDINGS)}
        at += 1
    assert at > BINDINGS // STEP


@pytest.mark.parametrize("affected_max", [1, 256], ids=["all forgotten", "versions"])
@pytest.mark.parametrize("way", ["exchange", "headers"])
@pytest.mark.parametrize("find", ["route", "target"])
def test_a_message_finds_the_way_that_is_there_at_every_moment(
    monkeypatch: pytest.MonkeyPatch, find: str, way: str, affected_max: int
) -> None:
    """A new way is bound, then the old one unbound, between any two steps of the search."""
    monkeypatch.setattr("amqp_server.broker.routing.exchange_graph.AFFECTED_MAX", affected_max)
    payload = BasicPublish(exchange="source", routing_key=KEY).encode()
    count, at = 1, 0
    while at <= count:
        place = Place("fanout")
        source, vhost, queue = place.exchange, place.vhost, a_queue("q")
        old = place.add("old", "fanout")
        new = place.add("new", "headers" if way == "headers" else "fanout")
        vhost.bind(source, old, "", {})
        for number in range(10):
            vhost.bind(source, place.add(f"other {number}", "fanout"), "", {})
        arguments = table_of({"x-match": "any", "a": "x"})
        for hub in (old, new):
            vhost.bind(hub, queue, "", arguments)
        steps = (
            vhost.routing.route_in_steps(source, an_envelope())
            if find == "route"
            else vhost.publish_targets.find_in_steps(payload)
        )
        count = 0
        found: Any = None
        while found is None:
            if count == at:
                vhost.bind(source, new, "", {})
                vhost.unbind(old, queue, "", arguments)
            try:
                next(steps)
            except StopIteration as end:
                found = end.value
            else:
                count += 1
        if find == "target":
            # The headers of each message decide, if it is known that they do.
            found = [queue] if found.routes_singly else found.queues
        assert list(found) == [queue], f"cut at {at}"
        at += 1
    assert at > 10


def test_a_search_ends_although_the_bindings_change_all_the_time() -> None:
    place = Place("fanout")
    fill(place)
    steps = place.vhost.routing.route_in_steps(place.exchange, an_envelope(200))
    count = 0
    for _ in steps:
        place.unbind(place.bind("moves"))
        count += 1
        assert count < 10 * BINDINGS // STEP

    assert count > BINDINGS // STEP


def test_what_a_message_met_in_a_search_that_is_repeated_does_not_count() -> None:
    place = Place("fanout")
    fill(place)
    steps = place.vhost.routing.route_in_steps(place.exchange, an_envelope(BINDINGS + 10))
    for _ in range(BINDINGS // STEP):
        next(steps)
    place.bind("comes")

    assert len(result_of(steps)) == BINDINGS + 1


def test_nodes_without_bindings_take_steps_too() -> None:
    place = Place("topic")
    for words in product("a*", repeat=5):
        place.bind("q", ".".join((*words, "z")))
    matcher = place.exchange.matcher
    assert isinstance(matcher, topic.TopicMatcher)
    envelope = Envelope(("a.a.a.a.a",))
    end = result_of(matcher._end_of(envelope.routing_keys[0], envelope))

    steps = matcher._destinations(end, envelope)

    assert len(list(steps)) >= 2**5 // STEP


def steps_of(exchange: Exchange, fields: dict[str, Any]) -> int:
    """Return how many steps one message with these headers takes."""
    properties = Properties(headers=table_of(fields)).encode()
    message = encode_message(HAS_HEADERS, b"source", b"", properties, b"")
    return sum(1 for _ in exchange.matcher.match_in_steps(Envelope(("",), message)))


@pytest.mark.parametrize("value", [1, None], ids=["by value", "by name"])
def test_bindings_with_many_arguments_are_compared_in_many_steps(
    value: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "STEP_VISITS", 100)
    place = Place("headers")
    fields = dict.fromkeys((f"f{n}" for n in range(400)), value)
    for number in range(BINDINGS):
        place.bind(f"q{number}", **fields, last=0)

    # All but the last argument fit.
    steps = steps_of(place.exchange, dict.fromkeys(fields, 1) | {"last": 1})

    assert steps >= BINDINGS * 400 // 8 // 100


def test_many_headers_of_one_message_are_looked_up_in_steps() -> None:
    place = Place("headers")
    place.bind("q", a=1)

    assert steps_of(place.exchange, {f"f{n}": n for n in range(1_000)}) >= 2_000 // (2 * STEP)
