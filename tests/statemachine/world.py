"""The broker and its model, side by side: after each operation both must say the same."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import Message as Received
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.statemachine.clients import Clients, Consumer, Delivery, ModelChannel, Outcome
from tests.statemachine.model import Death, Message, Model, ModelQueue
from tests.statemachine.peer import ROUND_TRIP_CHANNEL, Peer
from tests.statemachine.shapes import SHAPES

OBSERVER_CHANNEL = 1


class World:
    """One run against a server.

    Args:
        server: Running.
        prefix: Before all names of this run.
    """

    def __init__(self, server: RunningServer, prefix: str) -> None:
        self.server = server
        self.prefix = prefix
        self.model = Model()
        self.clients = Clients()
        self.observer = self._observer()
        self._taken: list[tuple[ModelQueue, Message, Consumer]] = []
        self.declare_exchanges()

    def name(self, name: str) -> str:
        """Return the name that the server knows."""
        return self.prefix + name if name else ""

    def queue_of(self, name: str) -> ModelQueue:
        """Return a queue that is there."""
        return self.model.queues[name]

    # Deliveries

    def take_deliveries(self, peer: Peer) -> None:
        """Tell the model what has come to a connection; it must be what may come."""
        events = peer.events
        for number, received in events.deliveries:
            channel = self.clients.channel(peer, number)
            assert isinstance(received.method, Basic.Deliver)
            consumer = channel.consumers.get(str(received.method.consumer_tag))
            assert consumer is not None, f"delivery to nobody: {received}"
            assert consumer.credit >= 1, f"more than prefetch allows: {received}"
            message = self.take(channel, consumer.queue, received, consumer, no_ack=consumer.no_ack)
            self._taken.append((consumer.queue, message, consumer))
        events.deliveries.clear()

    def take(
        self,
        channel: ModelChannel,
        queue: ModelQueue,
        received: Received,
        consumer: Consumer | None,
        *,
        no_ack: bool,
    ) -> Message:
        """Tell the model of one message that came; it must be ready, and as it comes."""
        identity = received.body, deaths_of(received, self.prefix)
        if not any(message.identity == identity for message in queue.ready):
            # It is a dead letter of a queue that has nobody to deliver it to.
            self.tidy()
        found = [message for message in queue.ready if message.identity == identity]
        name = queue.shape.name
        assert found, f"{identity} came from {name}, where there is {queue.ready}"
        message = found[0]
        assert received.redelivered == message.redelivered, f"wrongly marked in {name}: {message}"
        headers = received.properties.headers or {}
        if queue.shape.delivery_limit is not None:
            assert headers.get("x-delivery-count", 0) == message.returns, f"{headers} {message}"
        channel.last_tag += 1
        assert received.tag == channel.last_tag, f"tag {received.tag}, not {channel.last_tag}"
        self.model.deliver(queue, message, no_ack=no_ack)
        if not no_ack:
            channel.unacked.append(Delivery(received.tag, queue, message, consumer))
        return message

    def _check_order(self) -> None:
        """Check what came in this step: nothing before what goes before it."""
        step = self.model.step
        for queue, message, _ in self._taken:
            for left in queue.ready:
                is_new = left.step == step and (
                    left.step != message.step or queue.shape.max_priority
                )
                assert is_new or not queue.goes_before(left, message), f"{message} before {left}"
        for _, group in groupby(sorted(self._taken, key=lambda t: id(t[2])), key=lambda t: t[2]):
            for (queue, before, _), (_, after, _) in pairwise(group):
                is_new = after.step == step and queue.shape.max_priority
                assert is_new or not queue.goes_before(after, before), f"{before} before {after}"
        self._taken.clear()

    # Steps

    def begin(self) -> None:
        """Begin an operation."""
        self.model.step += 1

    def settle(self) -> None:
        """Return when the broker is where the model is; that must be soon."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            differences = self._look()
            if not differences:
                self._check_order()
                return
            assert time.monotonic() < deadline, "; ".join(differences)
            time.sleep(0.002)

    def _look(self) -> list[str]:
        """Bring broker and model nearer to each other; return how they differ."""
        counts = {name: self.counts(name) for name in self.model.queues}
        for peer in self.clients.peers:
            peer.round_trip()
            self.take_deliveries(peer)
        self.tidy()
        differences = []
        for name, queue in self.model.queues.items():
            if queue.ready and self.clients.able(queue):
                differences.append(f"{name} could deliver {len(queue.ready)}")
            consumers = sum(each.queue is queue for each in self.clients.consumers)
            if counts[name] != (len(queue.ready), consumers):
                differences.append(f"{name} has {counts[name]}, not {len(queue.ready), consumers}")
        return differences

    def tidy(self) -> None:
        """Let every queue do what it does once its consumers can take no more."""
        queues = self.model.queues.values()
        while any(not self.clients.able(queue) and self.model.tidy(queue) for queue in queues):
            pass

    def counts(self, name: str) -> tuple[int | None, int | None]:
        """Return how many messages of a queue are ready, and how many consumers it has."""
        peer, number = self.asked(self.model.queues[name])
        method = Queue.Declare(queue=self.name(name), passive=True)
        answer = peer.call(method, Queue.DeclareOk, number)
        return answer.message_count, answer.consumer_count

    def asked(self, queue: ModelQueue) -> tuple[Peer, int]:
        """Return connection and channel on which the queue can be asked for."""
        if isinstance(queue.owner, Peer):
            return queue.owner, ROUND_TRIP_CHANNEL
        return self.observer, OBSERVER_CHANNEL

    # Operations that come from several sides

    def answer(self, channel: ModelChannel, outcome: Outcome, deliveries: list[Delivery]) -> None:
        """Tell the model of an answer to deliveries, held back or not."""
        if channel.mode == "tx":
            channel.held.append((outcome, deliveries))
        else:
            self.carry_out(outcome, deliveries)

    def carry_out(
        self, outcome: Outcome, deliveries: Iterable[Delivery], *, may_return: bool = True
    ) -> None:
        """Tell the model of an answer to deliveries."""
        for _, group in groupby(deliveries, key=attrgetter("queue")):
            run = list(group)
            queue = run[0].queue
            messages = [each.message for each in run]
            if queue.is_deleted:
                continue
            if outcome == "ack":
                self.model.settle(queue, messages, may_return=may_return)
            elif outcome == "reject":
                self.model.reject(queue, messages)
            else:
                self.model.requeue(queue, messages)

    def channel_gone(self, channel: ModelChannel) -> None:
        """Tell the model that a channel is closed."""
        self.clients.channels.remove(channel)
        channel.roll_back()
        self.carry_out("requeue", channel.take(len(channel.unacked) - 1, multiple=True))
        for consumer in list(channel.consumers.values()):
            self.consumer_gone(consumer)

    def consumer_gone(self, consumer: Consumer) -> None:
        """Tell the model that a consumer has ended."""
        del consumer.channel.consumers[consumer.tag]
        queue = consumer.queue
        is_last = not any(each.queue is queue for each in self.clients.consumers)
        if queue.shape.auto_delete and is_last and not queue.is_deleted:
            self.model.delete(queue.shape.name)

    def peer_gone(self, peer: Peer) -> None:
        """Tell the model that a connection is closed."""
        peer.client.socket.close()
        for channel in self.clients.of(peer):
            self.channel_gone(channel)
        self.clients.peers.remove(peer)
        for name, queue in list(self.model.queues.items()):
            if queue.owner is peer:
                self.model.delete(name)

    # The server as a whole

    def declare_exchanges(self) -> None:
        """Declare what is not there."""
        for name, kind in self.model.exchanges.items():
            self.declare_exchange(name, kind)

    def declare_exchange(self, name: str, kind: str) -> None:
        """Declare an exchange."""
        self.model.exchanges[name] = kind
        durable = name != "passing"
        method = Exchange.Declare(exchange=self.name(name), exchange_type=kind, durable=durable)
        self.observer.call(method, Exchange.DeclareOk, OBSERVER_CHANNEL)

    def restart(self) -> None:
        """Start the ended server again; the model has lost all connections already."""
        self.close()
        self.server.restart()
        self.observer = self._observer()

    def remove(self) -> None:
        """Delete all that this run has made, and go."""
        for peer in self.clients.peers:
            peer.client.socket.close()
        for name in SHAPES:
            if name != "mine":
                method = Queue.Delete(queue=self.name(name))
                self.observer.call(method, Queue.DeleteOk, OBSERVER_CHANNEL)
        for name in self.model.exchanges:
            exchange = Exchange.Delete(exchange=self.name(name))
            self.observer.call(exchange, Exchange.DeleteOk, OBSERVER_CHANNEL)
        self.observer.client.close()

    def close(self) -> None:
        """Leave without a word."""
        for peer in (self.observer, *self.clients.peers):
            peer.client.socket.close()

    def _observer(self) -> Peer:
        peer = Peer(self.server.address)
        peer.client.open_channel(OBSERVER_CHANNEL)
        return peer


def deaths_of(received: Received, prefix: str) -> tuple[Death, ...]:
    """Return the deaths that a message tells of."""
    headers: Any = received.properties.headers or {}
    tables = headers.get("x-death", [])
    return tuple(
        (str(table["queue"]).removeprefix(prefix), str(table["reason"]), table["count"])
        for table in tables
    )
