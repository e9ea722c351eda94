"""Where publish frames go is remembered until an exchange on their way changes."""

import gc
import tracemalloc
import weakref
from itertools import product

import pytest

from amqp_server.broker.publishing import publish_targets
from amqp_server.broker.publishing.publish_targets import PublishTargets
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing.route_tree import QUEUES_PER_STEP
from amqp_server.broker.routing.routing import Routing
from amqp_server.broker.virtual_host import REMOVED_MAX, VirtualHost
from amqp_server.protocol.errors import NotFound, NotImplementedAmqp
from amqp_server.protocol.methods import BasicPublish
from tests.broker.bindings import a_queue, an_exchange, remove


def frame(exchange: str, key: str) -> bytes:
    return BasicPublish(exchange=exchange, routing_key=key).encode()


def queues_of(targets: PublishTargets, exchange: str, key: str) -> list[str]:
    return [queue.name for queue in targets.find(frame(exchange, key)).queues]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the exchanges from which a route was found, once for each time."""
    found: list[str] = []
    walk = Routing._walk

    def counted(self: Routing, exchange: object, *arguments: object) -> object:
        found.append(exchange.name)  # type: ignore[attr-defined]
        return walk(self, exchange, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Routing, "_walk", counted)
    return found


def test_a_queue_that_is_declared_later_gets_what_went_nowhere() -> None:
    vhost = VirtualHost("/")
    targets = vhost.publish_targets
    assert queues_of(targets, "", "q") == []

    vhost.add_queue(a_queue("q"))
    assert queues_of(targets, "", "q") == ["q"]
    remove(vhost, vhost.queues["q"])
    assert queues_of(targets, "", "q") == []
    again = a_queue("q")
    vhost.add_queue(again)
    assert targets.find(frame("", "q")).queues == (again,)


def test_an_unrelated_change_costs_no_route(walks: list[str]) -> None:
    vhost = VirtualHost("/")
    targets = vhost.publish_targets
    work, other = an_exchange("work"), an_exchange("other")
    vhost.add_exchange(work)
    vhost.add_exchange(other)
    vhost.add_queue(a_queue("q"))
    vhost.bind(work, vhost.queues["q"], "k", {})
    assert queues_of(targets, "work", "k") == queues_of(targets, "", "q") == ["q"]
    walks.clear()

    for number in range(10):
        vhost.add_queue(a_queue(str(number)))
        vhost.bind(other, vhost.queues[str(number)], "k", {})
        assert queues_of(targets, "work", "k") == queues_of(targets, "", "q") == ["q"]

    assert walks == []
    vhost.bind(work, vhost.queues["0"], "k", {})
    assert queues_of(targets, "work", "k") == ["q", "0"]
    assert walks == ["work"]


def test_an_exchange_that_is_gone_is_not_published_to_from_memory() -> None:
    vhost = VirtualHost("/")
    first, second = an_exchange("e"), an_exchange("e")
    vhost.add_queue(a_queue("q"))
    vhost.add_exchange(first)
    vhost.bind(first, vhost.queues["q"], "k", {})
    assert queues_of(vhost.publish_targets, "e", "k") == ["q"]

    remove(vhost, first)
    with pytest.raises(NotFound):
        vhost.publish_targets.find(frame("e", "k"))
    vhost.add_exchange(second)
    assert queues_of(vhost.publish_targets, "e", "k") == []


def test_routes_keep_few_queues_that_are_gone_in_memory() -> None:
    vhost = VirtualHost("/")
    exchange = an_exchange("e")
    vhost.add_exchange(exchange)
    gone = list[weakref.ref[Queue]]()
    for number in range(4 * REMOVED_MAX):
        name = str(number)
        vhost.add_queue(a_queue(name))
        vhost.bind(exchange, vhost.queues[name], name, {})
        assert queues_of(vhost.publish_targets, "e", name) == [name]
        assert queues_of(vhost.publish_targets, "", name) == [name]
        gone.append(weakref.ref(vhost.queues[name]))
        remove(vhost, vhost.queues[name])

    gc.collect()
    assert sum(queue() is not None for queue in gone) < REMOVED_MAX


def test_routes_that_no_tree_remembers_are_bounded_by_their_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each frame comes twice, with every flags octet that a client may send."""
    for name in ("FRAMES_MAX", "ROUTES_MAX"):
        monkeypatch.setattr(publish_targets, name, 64)
    vhost = VirtualHost("/")
    exchange = an_exchange("e", "topic")
    vhost.add_exchange(exchange)
    queue_count = 500
    for number in range(queue_count):
        queue = a_queue(str(number))
        vhost.add_queue(queue)
        vhost.bind(exchange, queue, "#", {})
    for words in product("a*", repeat=5):
        vhost.bind(exchange, queue, ".".join((*words, "z")), {})
    targets = vhost.publish_targets
    targets.find(frame("e", "a.a.a.a.a.key"))
    assert vhost.routing.known_route_of(exchange, "a.a.a.a.a.key") is None

    tracemalloc.start()
    try:
        for flags in range(0, 64, 4):
            for number in range(20):
                payload = frame("e", f"a.a.a.a.a.{number}")[:-1] + bytes([flags])
                for _ in range(2):
                    assert len(targets.find(payload).queues) == queue_count
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Two generations, and as much again for what else is remembered.
    assert kept_bytes < 4 * 64 * QUEUES_PER_STEP * 8
    assert sum(map(len, targets._heads)) == 1, "flags without a meaning make no difference"


def test_a_frame_that_is_remembered_is_refused_with_immediate() -> None:
    vhost = VirtualHost("/")
    vhost.add_exchange(an_exchange("e"))
    for _ in range(2):
        vhost.publish_targets.find(frame("e", "k"))

    for flags in (2, 3, 255):
        with pytest.raises(NotImplementedAmqp):
            vhost.publish_targets.find(frame("e", "k")[:-1] + bytes([flags]))
