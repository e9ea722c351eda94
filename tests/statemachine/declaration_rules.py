"""Rules: queues and bindings come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pamqp.commands import Exchange, Queue

from tests.statemachine.machine import WorldMachine, anything, one_of, seldom
from tests.statemachine.model import Binding, ModelQueue
from tests.statemachine.peer import ROUND_TRIP_CHANNEL
from tests.statemachine.shapes import KEYS, SHAPES, TOPICS
from tests.statemachine.world import OBSERVER_CHANNEL


class DeclarationRules(WorldMachine):
    """What is there."""

    @rule(name=st.sampled_from(sorted(SHAPES)), at=anything)
    def declare(self, name: str, at: int) -> None:
        shape = SHAPES[name]
        if name in self.model.queues or (shape.exclusive and not self.clients.peers):
            return
        self.world.begin()
        owner = one_of(self.clients.peers, at) if shape.exclusive else None
        peer = owner or self.world.observer
        flags = (shape.durable, shape.exclusive, shape.auto_delete, False)
        arguments: Any = shape.arguments(self.world.prefix)
        method = Queue.Declare(0, self.world.name(name), False, *flags, arguments)
        answer = peer.call(
            method, Queue.DeclareOk, OBSERVER_CHANNEL if owner is None else ROUND_TRIP_CHANNEL
        )
        assert (answer.message_count, answer.consumer_count) == (0, 0)
        self.model.queues[name] = ModelQueue(shape, owner)
        self.world.settle()

    @rule(at=anything, is_meant=seldom)
    def delete(self, at: int, is_meant: bool) -> None:
        if not (is_meant and self.model.queues):
            return
        queue = self.queue(at)
        peer, number = self.world.asked(queue)
        self.world.begin()
        ready = len(queue.ready)
        method = Queue.Delete(queue=self.world.name(queue.shape.name))
        answer = peer.call(method, Queue.DeleteOk, number)
        assert answer.message_count == ready
        self.model.delete(queue.shape.name)
        for consumer in [c for c in self.clients.consumers if c.queue is queue]:
            consumer.channel.peer.round_trip()
            told = (consumer.channel.number, consumer.tag)
            assert told in consumer.channel.peer.events.cancelled, f"{told} was not told"
            del consumer.channel.consumers[consumer.tag]
        self.world.settle()

    @rule(at=anything, is_meant=seldom)
    def purge(self, at: int, is_meant: bool) -> None:
        if not (is_meant and self.model.queues):
            return
        queue = self.queue(at)
        peer, number = self.world.asked(queue)
        self.world.begin()
        method = Queue.Purge(queue=self.world.name(queue.shape.name))
        answer = peer.call(method, Queue.PurgeOk, number)
        assert answer.message_count == self.model.purge(queue)
        self.world.settle()

    @rule(
        at=anything,
        source=st.sampled_from(("direct", "fanout", "topic", "passing")),
        key=st.sampled_from((*KEYS, *TOPICS)),
    )
    def bind(self, at: int, source: str, key: str) -> None:
        if not self.model.queues:
            return
        queue = self.queue(at)
        peer, number = self.world.asked(queue)
        if source not in self.model.exchanges:
            self.world.declare_exchange(source, "fanout")
        names = self.world.name(queue.shape.name), self.world.name(source)
        peer.call(Queue.Bind(0, *names, key), Queue.BindOk, number)
        self.model.bindings.add(Binding(source, queue.shape.name, key))

    @rule(
        source=st.sampled_from(("fanout", "topic")),
        destination=st.sampled_from(("direct", "fanout")),
        key=st.sampled_from(TOPICS),
    )
    def bind_exchange(self, source: str, destination: str, key: str) -> None:
        method = Exchange.Bind(0, self.world.name(destination), self.world.name(source), key)
        self.world.observer.call(method, Exchange.BindOk, OBSERVER_CHANNEL)
        self.model.bindings.add(Binding(source, destination, key, to_exchange=True))

    @rule(at=anything, is_meant=seldom)
    def unbind(self, at: int, is_meant: bool) -> None:
        if not (is_meant and self.model.bindings):
            return
        binding = one_of(sorted(self.model.bindings, key=repr), at)
        names = self.world.name(binding.destination), self.world.name(binding.source)
        if binding.to_exchange:
            unbound = Exchange.Unbind(0, *names, binding.key)
            self.world.observer.call(unbound, Exchange.UnbindOk, OBSERVER_CHANNEL)
        else:
            queue = self.model.queues[binding.destination]
            peer, number = self.world.asked(queue)
            peer.call(Queue.Unbind(0, *names, binding.key), Queue.UnbindOk, number)
        self.model.bindings.remove(binding)
