"""Bindings, routing through exchanges, and what is left when something goes."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.binding import binding_identity
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing import exchange_graph
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.virtual_host import (
    EVENT_EXCHANGES,
    PREDECLARED_EXCHANGES,
    SOURCES_MAX,
    VirtualHost,
)
from amqp_server.protocol.methods import BasicPublish
from amqp_server.protocol.tables import Table, encode_table, table_of
from appendlog.sharding import pick_shard
from tests.broker.bindings import a_queue, an_exchange, remove, sent
from tests.broker.test_matchers import fits, words_of


def host(*exchanges: Exchange, queues: str = "") -> tuple[VirtualHost, dict[str, Queue]]:
    vhost = VirtualHost("/")
    for exchange in exchanges:
        vhost.add_exchange(exchange)
    made = {name: a_queue(name) for name in queues}
    for queue in made.values():
        vhost.add_queue(queue)
    return vhost, made


def routed(vhost: VirtualHost, exchange: Exchange, key: str = "") -> list[str]:
    return sorted(queue.name for queue in vhost.routing.route(exchange, sent(key)))


def test_the_exchanges_of_the_specification_are_there() -> None:
    vhost, _ = host()

    assert set(vhost.exchanges) == {name for name, _, _ in PREDECLARED_EXCHANGES + EVENT_EXCHANGES}
    assert set(VirtualHost("other").exchanges) == {name for name, _, _ in PREDECLARED_EXCHANGES}
    assert all(exchange.durable for exchange in vhost.exchanges.values())
    assert vhost.exchanges["amq.match"].type == "headers"


def test_the_default_exchange_finds_a_queue_by_its_name() -> None:
    vhost, _ = host(queues="q")

    assert routed(vhost, vhost.exchanges[""], "q") == ["q"]
    assert routed(vhost, vhost.exchanges[""], "unknown") == []


def test_a_queue_bound_twice_gets_a_message_once() -> None:
    source = an_exchange("e", "topic")
    vhost, queues = host(source, queues="q")
    vhost.bind(source, queues["q"], "#", {})
    vhost.bind(source, queues["q"], "a.*", {})

    assert routed(vhost, source, "a.b") == ["q"]


def test_the_same_binding_is_made_once_and_arguments_tell_bindings_apart() -> None:
    source = an_exchange("e")
    vhost, queues = host(source, queues="q")
    first = vhost.bind(source, queues["q"], "k", {})

    assert first is not None
    assert vhost.bind(source, queues["q"], "k", {}) is None
    assert vhost.bind(source, queues["q"], "k", table_of({"a": 1})) is not None
    assert vhost.unbind(source, queues["q"], "k", {}) is first
    assert vhost.unbind(source, queues["q"], "k", {}) is None
    assert routed(vhost, source) == ["q"]


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    source, target = an_exchange("e"), an_exchange("same")
    same = a_queue("same")

    assert binding_identity(source, target, "", {}) != binding_identity(source, same, "", {})


def test_document_names_differ_where_identities_do() -> None:
    parts = [
        ("a", "bc", ""),
        ("ab", "c", ""),
        ("a", "b", "c"),
        ("a", "", "bc"),
        ("a", "b", "c\0d"),
        ("a", "b\0c", "d"),
    ]
    identities = [
        binding_identity(an_exchange(source), a_queue(queue), key, {})
        for source, queue, key in parts
    ]
    identities.append(binding_identity(an_exchange("a"), an_exchange("bc"), "", {}))

    assert len({identity.document_name for identity in identities}) == len(identities)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("journaled", [True, False])
def test_a_binding_is_saved_when_both_ends_are(durable: bool, journaled: bool) -> None:
    source = an_exchange("e", durable=durable)
    vhost, _ = host(source)
    to_queue = vhost.bind(source, a_queue("q", is_journaled=journaled), "", {})
    to_exchange = vhost.bind(source, an_exchange("f", durable=journaled), "", {})

    assert to_queue is not None
    assert to_exchange is not None
    assert to_queue.is_saved is to_exchange.is_saved is (durable and journaled)


def test_messages_pass_from_exchange_to_exchange_and_cycles_end() -> None:
    first, second, third = an_exchange("1"), an_exchange("2", "direct"), an_exchange("3")
    vhost, queues = host(first, second, third, queues="xyz")
    vhost.bind(first, second, "", {})
    vhost.bind(second, third, "k", {})
    vhost.bind(third, first, "", {})
    vhost.bind(third, third, "", {})
    for exchange, name in ((first, "x"), (second, "y"), (third, "z")):
        vhost.bind(exchange, queues[name], "k", {})

    assert routed(vhost, second, "k") == ["x", "y", "z"]
    assert routed(vhost, first, "k") == ["x", "y", "z"]
    assert routed(vhost, first, "other") == ["x"]


def test_headers_matter_wherever_a_headers_exchange_can_be_reached() -> None:
    first, second, by_headers = an_exchange("1"), an_exchange("2"), an_exchange("h", "headers")
    vhost, queues = host(first, second, by_headers, queues="q")
    vhost.bind(first, second, "", {})
    vhost.bind(second, first, "", {})
    assert not vhost.routing.routes_singly(first)

    vhost.bind(second, by_headers, "", {})
    vhost.bind(by_headers, queues["q"], "", table_of({"a": 1}))

    assert vhost.routing.routes_singly(first)
    assert vhost.routing.route(first, sent("", table_of({"a": 1}))) == (queues["q"],)
    assert vhost.routing.route(first, sent("", table_of({"a": 2}))) == ()


def test_a_queue_that_goes_takes_its_bindings_along() -> None:
    source, other = an_exchange("e"), an_exchange("f")
    vhost, queues = host(source, other, queues="qr")
    gone = {vhost.bind(source, queues["q"], "", {}), vhost.bind(other, queues["q"], "", {})}
    vhost.bind(source, queues["r"], "", {})

    assert set(remove(vhost, queues["q"])) == gone
    assert routed(vhost, source) == ["r"]
    assert other.bindings == {}
    assert routed(vhost, vhost.exchanges[""], "q") == []


def test_an_exchange_that_goes_takes_the_bindings_of_both_sides_along() -> None:
    before, gone, after = an_exchange("before"), an_exchange("gone"), an_exchange("after")
    vhost, queues = host(before, gone, after, queues="q")
    vhost.bind(before, gone, "", {})
    vhost.bind(gone, after, "", {})
    vhost.bind(gone, gone, "", {})
    vhost.bind(after, queues["q"], "", {})
    assert routed(vhost, before) == ["q"]

    removed = remove(vhost, gone)

    assert len(removed) == len(set(removed)) == 3
    assert routed(vhost, before) == []
    assert routed(vhost, after) == ["q"]


def test_every_change_of_an_exchange_ends_what_is_remembered_of_its_routes() -> None:
    vhost, _ = host()
    source, queue = an_exchange("e"), a_queue("q")
    vhost.add_queue(queue)
    changes: list[Callable[[], object]] = [
        lambda: vhost.add_exchange(source),
        lambda: vhost.bind(source, queue, "", {}),
        lambda: vhost.unbind(source, queue, "", {}),
        lambda: vhost.bind(source, queue, "", {}),
        lambda: remove(vhost, queue),
        lambda: remove(vhost, source),
    ]

    versions = [source.routes_version]
    for change in changes:
        change()
        versions.append(source.routes_version)

    assert len(set(versions)) == len(versions)


def test_a_change_ends_the_routes_that_lead_through_it_and_no_others() -> None:
    spare = table_of({"alternate-exchange": "last"})
    first, second, last = (
        an_exchange("first"),
        an_exchange("second", arguments=spare),
        an_exchange("last"),
    )
    other = an_exchange("other")
    vhost, queues = host(first, second, last, other, queues="q")
    vhost.bind(first, second, "", {})
    vhost.bind(other, queues["q"], "", {})
    assert routed(vhost, first) == []
    before = {each: each.routes_version for each in (first, second, last, other)}

    vhost.bind(last, queues["q"], "", {})

    assert routed(vhost, first) == ["q"]
    changed = {each.name for each, version in before.items() if each.routes_version != version}
    assert changed == {"first", "second", "last"}
    vhost.add_queue(a_queue("unrelated"))
    assert {each: each.routes_version for each in before} == {
        each: version + (each is not other) for each, version in before.items()
    }


def test_a_change_that_many_exchanges_lead_to_ends_all_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange_graph, "AFFECTED_MAX", 3)
    sources = [an_exchange(str(number)) for number in range(5)]
    last = an_exchange("last")
    vhost, queues = host(*sources, last, queues="q")
    for source in sources:
        vhost.bind(source, last, "", {})
    assert [routed(vhost, source) for source in sources] == [[]] * 5

    vhost.bind(last, queues["q"], "", {})

    assert [routed(vhost, source) for source in sources] == [["q"]] * 5
    vhost.unbind(last, queues["q"], "", {})
    assert [routed(vhost, source) for source in sources] == [[]] * 5


def test_auto_delete_exchanges_are_unused_when_their_last_binding_goes() -> None:
    source, kept = an_exchange("e", auto_delete=True), an_exchange("kept")
    vhost, queues = host(source, kept, queues="qr")
    for exchange in (source, kept):
        vhost.bind(exchange, queues["q"], "", {})
    vhost.bind(source, queues["r"], "", {})

    assert vhost.exchanges_left_unused(remove(vhost, queues["q"])) == []
    removed = remove(vhost, queues["r"])
    assert vhost.exchanges_left_unused(removed) == [source]
    remove(vhost, source)
    assert vhost.exchanges_left_unused(removed) == []


@given(
    bindings=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=14),
    start=st.integers(0, 4),
)
def test_any_graph_of_exchanges_routes_to_what_can_be_reached(
    bindings: list[tuple[int, int, bool]], start: int
) -> None:
    exchanges = [an_exchange(str(number)) for number in range(5)]
    vhost, queues = host(*exchanges, queues="01234")
    reached, frontier = set(), {start}
    for source, target, to_queue in bindings:
        destination = queues[str(target)] if to_queue else exchanges[target]
        vhost.bind(exchanges[source], destination, "", {})
    while frontier:
        reached |= frontier
        frontier = {
            target for source, target, to_queue in bindings if source in reached and not to_queue
        } - reached

    expected = {
        str(target) for source, target, to_queue in bindings if to_queue and source in reached
    }
    assert routed(vhost, exchanges[start]) == sorted(expected)


Step = tuple[str, int, int, str]
steps = st.tuples(
    st.sampled_from(["bind queue", "bind exchange", "unbind", "publish"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "a", "a.b", "#", "*", "a.#", "*.b", "b"]),
)


@given(st.lists(steps, max_size=40))
def test_routes_are_right_while_bindings_come_and_go(taken: list[Step]) -> None:
    """Four exchanges of two types and four queues, against a walk over all bindings each time."""
    kinds = ("topic", "direct", "topic", "fanout")
    exchanges = [an_exchange(str(at), kind) for at, kind in enumerate(kinds)]
    vhost, queues = host(*exchanges, queues="0123")
    bound: list[tuple[int, bool, int, str]] = []
    for step, source, target, key in taken:
        if step == "publish":
            assert routed(vhost, exchanges[source], key) == reached(bound, kinds, source, key)
            continue
        to_queue = step != "bind exchange"
        destination = queues[str(target)] if to_queue else exchanges[target]
        binding = (source, to_queue, target, key)
        if step == "unbind":
            was_there = vhost.unbind(exchanges[source], destination, key, {}) is not None
            assert was_there == (binding in bound)
            bound = [each for each in bound if each != binding]
        elif vhost.bind(exchanges[source], destination, key, {}) is not None:
            bound.append(binding)


def reached(
    bound: list[tuple[int, bool, int, str]], kinds: tuple[str, ...], start: int, key: str
) -> list[str]:
    found, seen, pending = set(), {start}, [start]
    while pending:
        current = pending.pop()
        for source, to_queue, target, pattern in bound:
            if source != current or not is_match(kinds[source], pattern, key):
                continue
            if to_queue:
                found.add(str(target))
            elif target not in seen:
                seen.add(target)
                pending.append(target)
    return sorted(found)


def is_match(kind: str, pattern: str, key: str) -> bool:
    if kind == "fanout":
        return True
    if kind == "direct":
        return pattern == key
    return fits(words_of(pattern), words_of(key))


def test_a_chain_of_thirty_exchanges_is_followed_to_its_end_and_a_circle_once() -> None:
    chain = [an_exchange(f"level {at}", "topic") for at in range(30)]
    vhost, queues = host(*chain, queues="q")
    for at in range(29):
        vhost.bind(chain[at], chain[at + 1], "*." * at + "#", {})
    vhost.bind(chain[-1], queues["q"], "#", {})
    vhost.bind(chain[-1], chain[0], "#", {})

    key = ".".join("0" * 30)
    assert [routed(vhost, chain[0], key) for _ in range(3)] == [["q"]] * 3
    vhost.unbind(chain[15], chain[16], "*." * 15 + "#", {})
    assert routed(vhost, chain[0], key) == []


def test_what_an_exchange_cannot_route_goes_to_its_alternate() -> None:
    source = an_exchange("e", "direct", arguments=table_of({"alternate-exchange": "spare"}))
    spare = an_exchange("spare", "fanout")
    vhost, queues = host(source, spare, queues="qs")
    vhost.bind(source, queues["q"], "k", {})
    vhost.bind(spare, queues["s"], "", {})

    assert routed(vhost, source, "k") == ["q"]
    assert routed(vhost, source, "other") == ["s"]


def test_an_alternate_that_is_not_there_is_none_and_a_circle_of_them_ends() -> None:
    lonely = an_exchange("lonely", arguments=table_of({"alternate-exchange": "gone"}))
    first = an_exchange("first", arguments=table_of({"alternate-exchange": "second"}))
    second = an_exchange("second", arguments=table_of({"alternate-exchange": "first"}))
    vhost, _ = host(lonely, first, second)

    assert routed(vhost, lonely) == []
    assert routed(vhost, first) == []


def test_headers_count_behind_an_alternate_too() -> None:
    source = an_exchange("e", arguments=table_of({"alternate-exchange": "amq.headers"}))
    vhost, _ = host(source)

    assert vhost.routing.routes_singly(source)


def test_what_copies_a_message_asked_for_is_not_kept_in_memory() -> None:
    exchange = an_exchange("x")
    vhost, _ = host(exchange)
    tracemalloc.start()
    try:
        for number in range(200):
            keys = tuple(f"{number}-{copy}" for copy in range(1000))
            vhost.routing.route(exchange, Envelope(keys))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept_bytes < 1_000_000


def test_an_exchange_that_goes_is_a_change_once_for_each_exchange_before_it() -> None:
    source, hub = an_exchange("source"), an_exchange("hub")
    vhost, queues = host(source, hub, queues="q")
    vhost.bind(source, hub, "", {})
    for number in range(100):
        vhost.bind(hub, queues["q"], str(number), {})
    before = source.routes_version

    remove(vhost, hub)

    assert source.routes_version - before <= 3
    for number in range(100):
        vhost.bind(source, queues["q"], str(number), {})
    before = source.routes_version
    remove(vhost, queues["q"])
    assert source.routes_version - before == 1


@pytest.mark.parametrize("count", [3, SOURCES_MAX, SOURCES_MAX + 1])
def test_no_route_leads_to_what_was_removed_though_its_bindings_are_there(count: int) -> None:
    source, target = an_exchange("e", "direct"), an_exchange("f")
    vhost, queues = host(source, target, queues="qr")
    for number in range(count):
        vhost.bind(source, queues["q"], str(number), {})
        vhost.bind(source, target, str(number), {})
    vhost.bind(target, queues["r"], "", {})
    assert routed(vhost, source, "1") == ["q", "r"]

    queues["q"].is_deleted = True
    vhost.remove_queue(queues["q"])
    assert routed(vhost, source, "1") == ["r"]
    vhost.remove_exchange(target)
    assert routed(vhost, source, "1") == []
    assert vhost.binding_count == 2 * count + 1
    parts: list[int] = []
    for end in (queues["q"], target):
        while some := vhost.unlink_some(end, 100):
            parts.append(len(some))
    assert max(parts) <= 100
    assert sum(parts) == 2 * count + 1
    assert vhost.binding_count == 0
    assert not source.bindings


@pytest.mark.parametrize("is_delayed", [False, True], ids=["plain", "delayed"])
@pytest.mark.parametrize("binding_count", [1, SOURCES_MAX + 1], ids=["few", "many"])
@pytest.mark.parametrize("leaves", ["queue", "exchange"])
def test_a_deletion_moves_the_keys_of_a_hash_exchange_once(
    leaves: str, binding_count: int, is_delayed: bool
) -> None:
    """Also while the bindings of what is deleted are still there, and after they have gone."""
    if is_delayed:
        kind, arguments = "x-delayed-message", table_of({"x-delayed-type": "x-consistent-hash"})
    else:
        kind, arguments = "x-consistent-hash", {}
    source = an_exchange("e", kind, arguments=arguments)
    target = an_exchange("f")
    vhost, queues = host(source, target, queues="abcd")
    gone = queues["a"] if leaves == "queue" else target
    for end in (gone, queues["b"], queues["c"], queues["d"]):
        vhost.bind(source, end, "1", {})
    for number in range(1, binding_count):
        vhost.bind(source, gone, "1", table_of({"n": number}))
    keys = [str(number) for number in range(60)]

    def places() -> list[str]:
        found = [routed(vhost, source, key) for key in keys]
        frames = [BasicPublish(exchange="e", routing_key=key).encode() for key in keys]
        if not is_delayed:
            for _ in range(2):
                targets = [vhost.publish_targets.find(frame).queues for frame in frames]
                assert [[queue.name for queue in each] for each in targets] == found
        return ["".join(each) for each in found]

    places()
    if leaves == "queue":
        queues["a"].is_deleted = True
        vhost.remove_queue(queues["a"])
    else:
        vhost.remove_exchange(target)

    expected = ["bcd"[pick_shard(key, 3)] for key in keys]
    assert places() == expected
    assert places() == expected
    while vhost.unlink_some(gone, 100):
        assert places() == expected


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_no_message_goes_on_through_a_deleted_exchange(kind: str) -> None:
    source, hub = an_exchange("e"), an_exchange("hub", kind)
    vhost, queues = host(source, hub, queues="q")
    vhost.bind(source, hub, "", {})
    vhost.bind(hub, queues["q"], "k", {})

    vhost.remove_exchange(hub)

    assert routed(vhost, hub, "k") == routed(vhost, source, "k") == []


def test_the_arguments_of_a_new_binding_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be thousands."""
    encoded = list[Table]()

    def counted(table: Table) -> bytes:
        encoded.append(table)
        return encode_table(table)

    monkeypatch.setattr("amqp_server.broker.binding.encode_table", counted)
    vhost, arguments = VirtualHost("/"), table_of({"a": 1})
    source, queue = vhost.exchanges["amq.headers"], a_queue("q")

    assert vhost.bind(source, queue, "", arguments) is not None
    assert len(encoded) == 1
    identity = binding_identity(source, queue, "k", arguments)
    binding = vhost.bind(source, queue, "k", arguments, identity=identity)
    assert binding is not None
    assert binding.identity is identity
    assert len(encoded) == 2
