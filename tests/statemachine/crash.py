"""What must be there after a crash, and what may be."""

from __future__ import annotations

import time
from dataclasses import replace

from pamqp.commands import Channel

from tests.statemachine.clients import Delivery, ModelChannel
from tests.statemachine.model import Identity, Message, ModelQueue
from tests.statemachine.peer import Peer
from tests.statemachine.world import World, deaths_of

STILL_SECONDS = 0.06
"""How long nothing must move before all dead letters of a start are taken to have arrived."""


class Aftermath:
    """The history at the moment of a crash, and what is found afterwards.

    Args:
        world: Its server was killed and runs again; the model still has all it had.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._bodies = {message.body for _, message in world.model.all_messages()}
        self._bodies |= {m.body for queue in world.model.queues.values() for m in queue.returnable}
        self._required = [
            (queue.shape.name, message)
            for queue, message in world.model.all_messages()
            if message.is_safe and message.persistent and _keeps(queue, message)
        ]

    def check(self) -> None:
        """Look at all that is there, in order, and let the model go on from that."""
        world = self._world
        peer = Peer(world.server.address)
        world.clients.peers.append(peer)
        peer.client.open_channel(1)
        channel = ModelChannel(peer, 1, "plain")
        world.clients.channels.append(channel)
        self._await_stillness()
        found = {name: self._drain(channel, queue) for name, queue in world.model.queues.items()}
        for name, message in self._required:
            places = {name, *(queue for queue, _, _ in message.deaths)} & found.keys()
            bodies = {body for place in places for body, _ in found[place]}
            assert message.body in bodies, f"lost from {name}: {message}"
            assert message.deaths or message.identity in found[name], f"lost from {name}: {message}"
        peer.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 1)
        world.channel_gone(channel)

    def _await_stillness(self) -> None:
        names = list(self._world.model.queues)
        before = None
        while before != (before := [self._world.counts(name) for name in names]):
            time.sleep(STILL_SECONDS)

    def _drain(self, channel: ModelChannel, queue: ModelQueue) -> list[Identity]:
        """Get everything from a queue; what may be there becomes what the model has there."""
        world, name = self._world, queue.shape.name
        known = {message.identity: message for message in (*queue.ready, *queue.returnable)}
        queue.ready.clear()
        found: list[Message] = []
        while (received := channel.peer.get(world.name(name), 1, no_ack=False)) is not None:
            identity = received.body, deaths_of(received, world.prefix)
            channel.last_tag += 1
            # A dead letter may have been on its way, and has come after the start.
            assert received.redelivered or identity[1], f"not marked in {name}: {identity}"
            assert received.properties.delivery_mode == 2, f"transient in {name}: {identity}"
            message = known.get(identity)
            if message is None:
                assert identity[1], f"never, or twice, in {name}: {identity}"
                assert identity[0] in self._bodies, f"invented: {identity}"
                priority = received.properties.priority or 0
                message = Message(identity[0], True, priority, deaths=identity[1])
            elif not identity[1]:
                del known[identity]
            _check_order(queue, found, message)
            message.redelivered = True
            headers = received.properties.headers or {}
            message.returns = int(str(headers.get("x-delivery-count", 0)))
            message.expires = queue.shape.ttl_ms == 0
            found.append(replace(message, step=world.model.step, source="found", number=len(found)))
        for tag, message in enumerate(found, channel.last_tag - len(found) + 1):
            message.is_safe = True
            queue.unacked.append(message)
            channel.unacked.append(Delivery(tag, queue, message, None))
        return [message.identity for message in found]


def _check_order(queue: ModelQueue, found: list[Message], message: Message) -> None:
    """Check that what was published comes in that order; dead letters may have come later."""
    for before in found:
        if not before.deaths and not message.deaths:
            key, key_before = ((-queue.level(m), m.born) for m in (message, before))
            assert key_before < key, f"{before} before {message} in {queue.shape.name}"


def _keeps(queue: ModelQueue, message: Message) -> bool:
    """Return whether a queue has no reason to let go of a message at the next start."""
    shape = queue.shape
    drops_old = (shape.max_length or shape.max_bytes) is not None and not shape.refuses
    comes_back_too_often = shape.delivery_limit is not None
    return shape.survives and not (drops_old or message.expires or comes_back_too_often)
