"""Routes of routing keys that never came before: as by a search, but without one."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.exchange import Exchange
from amqp_server.broker.publishing import publish_targets
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing import routing
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.matchers import topic
from amqp_server.broker.routing.matchers.topic import TopicMatcher
from amqp_server.broker.routing.route_tree import QUEUES_PER_STEP
from amqp_server.broker.routing.routing import Routing
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.methods import BasicPublish
from amqp_server.protocol.tables import Table, table_of
from tests.broker.bindings import a_queue, an_exchange, bind
from tests.broker.test_matchers import fits, words_of

ROUTES_MAX = 30
_KEYS = ("", "a", "b", "a.b", "a.a", "b.*", "#", "*", "a.#.b", "#.b", "*.a")


def frame(exchange: str, key: str, *, mandatory: bool = False) -> bytes:
    return BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory).encode()


def expected(vhost: VirtualHost, start: Exchange, key: str) -> set[str]:
    """Return the queues that the definition of the exchange types gives."""
    queues: set[str] = set()
    visited = {start}
    pending = [start]
    while pending:
        exchange = pending.pop()
        is_matched = False
        reached: list[object] = []
        for binding in exchange.bindings.values():
            pattern = binding.routing_key
            match exchange.type:
                case "fanout":
                    is_fit = True
                case "direct":
                    is_fit = pattern == key
                case _:
                    is_fit = fits(words_of(pattern), words_of(key))
            if is_fit:
                is_matched = True
                reached.append(binding.destination)
        if not is_matched and exchange.alternate in vhost.exchanges:
            reached.append(vhost.exchanges[exchange.alternate])
        for destination in reached:
            if not isinstance(destination, Exchange):
                queues.add(destination.name)  # type: ignore[attr-defined]
            elif destination not in visited:
                visited.add(destination)
                pending.append(destination)
    return queues


def topology(kinds: list[str], alternates: list[int | None]) -> VirtualHost:
    vhost = VirtualHost("/")
    for number, (kind, alternate) in enumerate(zip(kinds, alternates, strict=True)):
        arguments = {} if alternate is None else table_of({"alternate-exchange": f"e{alternate}"})
        vhost.add_exchange(an_exchange(f"e{number}", kind, arguments=arguments))
    for name in ("q0", "q1", "q2"):
        vhost.add_queue(a_queue(name))
    return vhost


_exchanges = st.integers(0, 3)
_bindings = st.tuples(
    _exchanges,
    st.sampled_from(["q0", "q1", "q2", "e0", "e1", "e2", "e3"]),
    st.sampled_from(["", "a", "b", "a.b", "*", "#", "a.*", "*.b", "#.b"]),
)


@given(
    kinds=st.lists(st.sampled_from(["topic", "topic", "direct", "fanout"]), min_size=4, max_size=4),
    alternates=st.lists(st.none() | _exchanges, min_size=4, max_size=4),
    bindings=st.lists(_bindings, min_size=2, max_size=12, unique=True),
    removed=st.integers(0, 3),
)
def test_a_route_is_that_of_the_bindings_whatever_was_learned_before(
    kinds: list[str],
    alternates: list[int | None],
    bindings: list[tuple[int, str, str]],
    removed: int,
) -> None:
    vhost = topology(kinds, alternates)
    ends: list[tuple[Exchange, Exchange | Queue, str, Table]] = [
        (vhost.exchanges[f"e{number}"], vhost.exchanges.get(name) or vhost.queues[name], key, {})
        for number, name, key in bindings
    ]

    def check() -> None:
        for key in ("c", "c.d", *_KEYS, "c", "d"):
            for number in range(4):
                exchange = vhost.exchanges[f"e{number}"]
                found = vhost.publish_targets.find(frame(exchange.name, key)).queues
                assert {queue.name for queue in found} == expected(vhost, exchange, key)
                assert len(found) == len(set(found)), "one queue twice"

    half = len(ends) // 2
    for end in ends[:half]:
        vhost.bind(*end)
    check()
    for end in ends[half:]:
        vhost.bind(*end)
    check()
    vhost.unbind(*ends[removed % len(ends)])
    check()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the exchanges from which a route was searched, once for each time."""
    found: list[str] = []
    walk = Routing._walk

    def counted(self: Routing, exchange: Exchange, *arguments: object) -> object:
        found.append(exchange.name)
        return walk(self, exchange, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Routing, "_walk", counted)
    return found


def test_keys_that_never_come_again_cost_one_search_and_no_memory(walks: list[str]) -> None:
    vhost = topology(["topic", "topic", "direct", "fanout"], [1, None, None, None])
    first = vhost.exchanges["e0"]
    vhost.bind(first, vhost.queues["q0"], "orders.*.created", {})
    vhost.bind(first, vhost.exchanges["e3"], "orders.#", {})
    vhost.bind(vhost.exchanges["e3"], vhost.queues["q1"], "", {})
    vhost.bind(vhost.exchanges["e1"], vhost.queues["q2"], "#", {})
    targets = vhost.publish_targets

    found = {
        tuple(queue.name for queue in targets.find(frame("e0", f"{head}.{number}.{tail}")).queues)
        for number in range(10_000)
        for head, tail in (("orders", "created"), ("orders", "paid"), ("else", "x"))
    }

    assert found == {("q0", "q1"), ("q1",), ("q2",)}
    assert len(walks) == 3
    assert len(targets.recent()) < 100, "frames that came once displaced others"


def test_a_frame_that_comes_again_is_remembered_whole() -> None:
    vhost = topology(["topic"] * 4, [None] * 4)
    targets = vhost.publish_targets

    targets.find(frame("e0", "a.b"))
    assert frame("e0", "a.b") not in targets.recent()
    targets.find(frame("e0", "a.b"))
    assert frame("e0", "a.b") in targets.recent()


def test_frames_of_one_route_share_their_target_but_not_with_mandatory_ones() -> None:
    vhost = topology(["topic"] * 4, [None] * 4)
    find = vhost.publish_targets.find

    assert find(frame("e0", "a")) is find(frame("e0", "b"))
    mandatory = find(frame("e0", "c", mandatory=True))
    assert mandatory.mandatory
    assert not mandatory.is_plain, "the broker returns it"


def test_a_frame_that_is_cut_short_is_an_error_also_behind_good_ones() -> None:
    vhost = topology(["topic"] * 4, [None] * 4)
    good = frame("e0", "key")
    vhost.publish_targets.find(good)

    for length in range(4, len(good)):
        with pytest.raises(FieldSyntaxError):
            vhost.publish_targets.find(good[:length])
    # The last octet is one of the exchange's name, and such a frame was seen.
    vhost.publish_targets.find(good[:-1] + b"0")
    with pytest.raises(FieldSyntaxError):
        vhost.publish_targets.find(good[: good.index(b"e0") + 2])


def test_trees_forget_all_routes_at_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "STEPS_MAX", 10)
    vhost = topology(["direct", "direct", "fanout", "fanout"], [None] * 4)
    for number in range(30):
        vhost.bind(vhost.exchanges["e0"], vhost.queues["q0"], str(number), {})
        vhost.bind(vhost.exchanges["e1"], vhost.exchanges["e0"], str(number), {})

    for number in (*range(30), *range(30)):
        for name in ("e0", "e1"):
            target = vhost.publish_targets.find(frame(name, str(number)))
            assert [queue.name for queue in target.queues] == ["q0"]

    trees = vhost.routing._trees.values()
    assert vhost.routing._step_count == sum(tree.step_count for tree in trees) <= 10 + 3


def test_equal_routes_are_one_and_their_queues_count(monkeypatch: pytest.MonkeyPatch) -> None:
    vhost = topology(["direct", "fanout", "direct", "direct"], [None] * 4)
    direct, fanout = vhost.exchanges["e0"], vhost.exchanges["e1"]
    for number in range(10 * QUEUES_PER_STEP):
        queue = a_queue(f"of all {number}")
        vhost.add_queue(queue)
        vhost.bind(fanout, queue, "", {})
    for number in range(20):
        vhost.bind(direct, fanout, str(number), {})
    for number in range(20):
        vhost.publish_targets.find(frame("e0", str(number)))

    routes = {vhost.routing.known_route_of(direct, str(number)) for number in range(20)}
    (route,) = routes
    assert route is not None
    assert len(route.queues) == 10 * QUEUES_PER_STEP
    assert 10 < vhost.routing._step_count < 100
    monkeypatch.setattr(routing, "STEPS_MAX", vhost.routing._step_count + 5)
    vhost.bind(vhost.exchanges["e2"], fanout, "k", {})
    vhost.publish_targets.find(frame("e2", "k"))
    assert vhost.routing.known_route_of(direct, "0") is None, "there was no room for both"


def test_whether_exchanges_route_singly_is_found_in_steps_of_their_bindings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "STEP_VISITS", 10)
    vhost = topology(["fanout"] * 4, [None] * 4)
    exchanges = [an_exchange(f"m{number}") for number in range(20)]
    for exchange in exchanges:
        vhost.add_exchange(exchange)
    for source, destination in product(exchanges, exchanges):
        vhost.bind(source, destination, "", {})

    assert len(list(vhost.routing.singly_in_steps(exchanges[0]))) >= 20 * 20 // 10


def test_targets_of_many_routes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_targets, "ROUTES_MAX", ROUTES_MAX)
    vhost = topology(["direct"] * 4, [None] * 4)
    for number in range(ROUTES_MAX + 10):
        vhost.bind(vhost.exchanges["e0"], vhost.queues[f"q{number % 3}"], str(number), {})
        vhost.publish_targets.find(frame("e0", str(number)))
    for number in range(ROUTES_MAX + 10):
        target = vhost.publish_targets.find(frame("e0", str(number)))
        assert [queue.name for queue in target.queues] == [f"q{number % 3}"]

    assert all(len(each) <= 2 * ROUTES_MAX for each in vhost.publish_targets._targets)


def test_states_that_a_topic_exchange_forgets_mislead_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic, "REMEMBERED_NODES_MAX", 200)
    vhost = topology(["topic"] * 4, [None] * 4)
    exchange = vhost.exchanges["e0"]
    for number in range(20):
        vhost.bind(exchange, vhost.queues[f"q{number % 3}"], f"#.w{number}.*", {})

    for number in (*range(20), *range(20)):
        key = f"x.w{number}.{number}"
        found = vhost.publish_targets.find(frame("e0", key)).queues
        assert {queue.name for queue in found} == expected(vhost, exchange, key)


def test_a_route_is_known_only_if_it_is_found_quickly() -> None:
    vhost = topology(["topic"] * 4, [None] * 4)
    chain = [an_exchange(f"c{number}", "topic") for number in range(20)]
    for exchange in chain:
        vhost.add_exchange(exchange)
    for source, destination in pairwise([*chain, vhost.queues["q0"]]):
        vhost.bind(source, destination, "#", {})  # type: ignore[arg-type]
    routing = vhost.routing

    for key in ("a.b", ".".join("a" * 120)):
        assert [queue.name for queue in vhost.publish_targets.find(frame("c0", key)).queues] == [
            "q0"
        ]
    assert routing.known_route_of(chain[0], "c.d") is not None
    assert routing.known_route_of(chain[0], ".".join("b" * 120)) is None
    assert routing.known_route_of(chain[-1], ".".join("b" * 120)) is None, "not learned yet"
    vhost.publish_targets.find(frame("c19", "a"))
    assert routing.known_route_of(chain[-1], ".".join("b" * 120)) is not None


@pytest.mark.parametrize("start", [True, False], ids=["first state", "later state"])
def test_a_binding_that_comes_while_a_state_is_made_is_seen_from_then_on(
    monkeypatch: pytest.MonkeyPatch, start: bool
) -> None:
    monkeypatch.setattr(topic, "STEP_VISITS", 1)
    key = "new" if start else "a.a.a.new"
    at = 0
    is_over = False
    while not is_over:
        matcher = TopicMatcher()
        for words in product("a*", repeat=3):
            matcher.add(bind(".".join(words)))
        steps = matcher.match_in_steps(Envelope((key,)))
        try:
            for _ in range(at):
                next(steps)
        except StopIteration:
            is_over = True
        matcher.add(bind(key))
        for _ in steps:
            pass
        assert [each.name for each in matcher.match(Envelope((key,)))] == [key], f"cut at {at}"
        at += 1
    assert at > 2
