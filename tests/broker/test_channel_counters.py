"""The counters of a channel: nothing is lost when parts of it end, and no step is long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from amqp_server.broker.counters import channel_counters
from amqp_server.broker.counters.channel_counters import LOOKED_AT, UNUSED_MAX, ChannelCounters
from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.delivery_pair import DeliveryPair
from amqp_server.broker.counters.incoming_pair import IncomingPair
from amqp_server.broker.publishing.publish_targets import PublishTarget
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.turn import Turn
from tests.broker.bindings import an_exchange
from tests.broker.channels import a_channel

STEP: int = 2
"""Pairs of one step in these tests."""


@dataclass(eq=False)
class LookedAt:
    """A queue that counts how often it is asked whether it was deleted."""

    name: str
    settings: QueueSettings = field(default_factory=QueueSettings)
    counters: DeliveryCounters = field(default_factory=DeliveryCounters)
    pairs: set[DeliveryPair] = field(default_factory=set)
    looks: list[str] = field(default_factory=list)
    is_gone: bool = False

    @property
    def is_deleted(self) -> bool:
        self.looks.append(self.name)
        return self.is_gone

    def add_delivery_pair(self, pair: DeliveryPair) -> None:
        self.pairs.add(pair)

    def remove_delivery_pair(self, pair: DeliveryPair) -> None:
        self.pairs.discard(pair)

    def mark_changed(self) -> None:
        """Take no notice."""


class Counting:
    """A channel, and the sums of its virtual host."""

    def __init__(self) -> None:
        turn = Turn(lambda call: None, lambda seconds, call: pytest.fail("no timer"))
        self.channel = a_channel(turn)
        self.vhost = self.channel.virtual_host
        self.counted = self.channel.broker.storage.counted_channels

    @property
    def counters(self) -> ChannelCounters:
        return self.channel.counters

    @property
    def got(self) -> int:
        """Messages taken with basic.get, by the sums of the virtual host."""
        return sum(each.get for each in self.vhost.counters.deliveries.values())

    @property
    def published(self) -> int:
        """Messages published, by the sums of the virtual host."""
        return self.vhost.counters.publishes.publish

    def fold(self) -> None:
        deque(self.counted.fold(), maxlen=0)

    def end(self) -> None:
        self.channel.end()
        deque(self.counters.end(), maxlen=0)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setattr(channel_counters, "STEP_PAIRS", STEP)
    return Counting()


def target_to(exchange_name: str) -> PublishTarget:
    return PublishTarget(
        an_exchange(exchange_name),
        mandatory=False,
        routes_singly=False,
        queues=(),
        reply_keys=(),
        is_plain=True,
        routes_version=0,
    )


def taken_one_by_one(steps: Iterator[None], counting: Counting) -> list[int]:
    """Return how many messages each step has added to the sums."""
    added: list[int] = []
    before = counting.got + counting.published
    for _ in steps:
        after = counting.got + counting.published
        added.append(after - before)
        before = after
    added.append(counting.got + counting.published - before)
    return added


@pytest.mark.parametrize("ends", [False, True])
def test_many_pairs_are_brought_up_to_date_in_steps(counting: Counting, *, ends: bool) -> None:
    for number in range(5 * STEP):
        counting.counters.deliveries_of(LookedAt(str(number))).get += 1
        counting.counters.publishes_to(an_exchange(str(number))).publish += 1
    steps = counting.counters.end() if ends else counting.counted.fold()
    added = taken_one_by_one(steps, counting)
    assert max(added) == STEP
    assert sum(added) == 10 * STEP
    assert bool(tuple(counting.counted)) is not ends


def test_confirms_begin_in_steps_and_wait_for_nothing_published_before(counting: Counting) -> None:
    for number in range(3 * STEP):
        counting.counters.publishes_to(an_exchange(str(number))).publish += 1
    added = taken_one_by_one(counting.channel.publishing.select_confirms(), counting)
    assert max(added) == STEP
    counting.counters.publishes_to(an_exchange("later")).publish += 1
    counting.fold()
    assert counting.vhost.counters.publishes.awaiting_confirm == 1
    assert counting.published == 3 * STEP + 1


def test_a_new_pair_looks_at_few_others(counting: Counting) -> None:
    looks: list[str] = []
    most = 0
    for number in range(4 * UNUSED_MAX):
        counting.counters.deliveries_of(LookedAt(str(number), looks=looks))
        most = max(most, len(looks))
        looks.clear()
    assert 0 < most <= LOOKED_AT


def test_a_search_that_finds_nothing_is_not_made_again_for_each_new_pair(
    counting: Counting,
) -> None:
    looks: list[str] = []
    count = 4 * UNUSED_MAX
    for number in range(count):
        counting.counters.deliveries_of(LookedAt(str(number), looks=looks))
    # The number of pairs doubles between two searches: each is looked at about once.
    assert UNUSED_MAX <= len(looks) < count


def test_what_is_deleted_is_forgotten_although_nobody_looks(counting: Counting) -> None:
    queues = [LookedAt(str(number)) for number in range(20 * UNUSED_MAX)]
    for queue in queues:
        counting.counters.deliveries_of(queue).get += 1
        queue.is_gone = True
        assert len(counting.counters.delivery_pairs) <= 2 * UNUSED_MAX
    counting.fold()
    assert counting.counters.delivery_pairs == {}
    assert counting.got == len(queues)
    assert not any(queue.pairs for queue in queues)


def test_publishes_count_when_their_exchange_was_deleted_before_their_last_step(
    counting: Counting,
) -> None:
    target = target_to("x")
    publishing = counting.channel.publishing
    publishing.count(target, 1)
    target.exchange.is_deleted = True
    counting.fold()
    publishing.count(target, 1)
    counting.fold()
    assert counting.published == 2
    assert counting.counters.publish_pairs == {}


def test_what_counts_after_the_end_of_the_channel_is_counted_and_not_kept(
    counting: Counting,
) -> None:
    target = target_to("x")
    publishing = counting.channel.publishing
    publishing.count(target, 1)
    counting.end()
    assert (counting.published, tuple(counting.counted)) == (1, ())
    # The rest of a publish, which is done in steps.
    publishing.count(target, 1)
    counting.fold()
    assert (counting.published, tuple(counting.counted)) == (2, ())


def test_a_pair_that_goes_before_a_look_tells_it_is_not_told(counting: Counting) -> None:
    reported = counting.counted.reported
    publishes = counting.counters.publishes_to(an_exchange("x"))
    deliveries = counting.counters.deliveries_of(LookedAt("q"))
    incoming = IncomingPair(an_exchange("x"))
    publishes.publish = deliveries.get = incoming.count = 1
    # The poll has found them; the channel and the queue go between two of its steps.
    counting.end()
    reported.end(incoming)
    reported.generation = 1
    assert not any(reported.see(each, 0, 1) for each in (publishes, deliveries, incoming))
    assert reported.gone_since(0) == []
