"""What must be there after a crash, and what may be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pamqp.commands import Channel

from amqp_server.control.client import ask
from amqp_server.control.queues import PAGE_QUEUES_MAX
from tests.statemachine.clients import Delivery, ModelChannel
from tests.statemachine.model import Identity, Message, ModelQueue
from tests.statemachine.peer import Peer
from tests.statemachine.world import World, deaths_of


@dataclass(slots=True)
class _Found:
    """What was found in a queue so far, and what else may be there."""

    known: dict[Identity, Message]
    messages: list[Message] = field(default_factory=list)


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
        found = self._drain_all(channel)
        for name, message in self._required:
            places = {name, *(queue for queue, _, _ in message.deaths)} & found.keys()
            bodies = {body for place in places for body, _ in found[place]}
            assert message.body in bodies, f"lost from {name}: {message}"
            assert message.deaths or message.identity in found[name], f"lost from {name}: {message}"
        peer.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 1)
        world.channel_gone(channel)

    def _drain_all(self, channel: ModelChannel) -> dict[str, list[Identity]]:
        """Get everything from all queues, with the dead letters that were on their way."""
        queues = self._world.model.queues
        found = {}
        for name, queue in queues.items():
            known = (*queue.ready, *queue.returnable)
            found[name] = _Found({message.identity: message for message in known})
            queue.ready.clear()
        is_all = False
        while not is_all:
            for name, queue in queues.items():
                self._drain(channel, queue, found[name])
            is_all = self._is_all({name: len(each.messages) for name, each in found.items()})
        return {name: [each.identity for each in it.messages] for name, it in found.items()}

    def _is_all(self, taken: dict[str, int]) -> bool:
        """Tell whether the queues have nothing but what was taken and is not answered.

        A message on its way into another queue counts in the one that it leaves. One answer has
        the counts of all queues at one moment.
        """
        world = self._world
        asked = {"vhost": "/", "queue": "", "after": "", "limit": PAGE_QUEUES_MAX}
        rows = ask(world.server.storage_path, "queues.stats", **asked)["queues"]
        counts = {row["name"]: (row["ready"], row["unacked"]) for row in rows}
        return all(counts[world.name(name)] == (0, count) for name, count in taken.items())

    def _drain(self, channel: ModelChannel, queue: ModelQueue, so_far: _Found) -> None:
        """Get everything from a queue; what may be there becomes what the model has there."""
        world, name = self._world, queue.shape.name
        known, found = so_far.known, so_far.messages
        before = len(found)
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
        new = found[before:]
        for tag, message in enumerate(new, channel.last_tag - len(new) + 1):
            message.is_safe = True
            queue.unacked.append(message)
            channel.unacked.append(Delivery(tag, queue, message, None))


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
