"""What a broker does, in a page: the messages of each queue, ready in order or unacked.

The model never guesses. Who of several consumers gets a message is the broker's choice: the
machine tells the model what came, and the model says whether it may have come, what follows from
it, and whether more has to come (`is_quiet`). Everything else follows from the operation.

Order is partial. Messages of one step and one source are in order; dead letters of two queues in
one step come as they like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from tests.statemachine.shapes import EXCHANGES, Shape

Death = tuple[str, str, int]
"""Queue, reason, count."""
Identity = tuple[bytes, tuple[Death, ...]]
"""Body and deaths: what tells a message from all others in a queue."""


@dataclass(slots=True, eq=False)
class Message:
    """One message in one queue.

    Attributes:
        body: Unique to its publish.
        persistent: Its delivery mode.
        priority: Its property.
        expires: Whether it expires as soon as nobody takes it: its time is up.
        deaths: The latest first.
        step: When it came into its queue.
        source: Where it came from; messages of one step have an order within a source only.
        number: Its place within the source.
        born: The number that it came with, which a restart does not change.
        redelivered: The flag of its next delivery.
        returns: How often it came back.
        is_safe: Whether somebody was promised that it survives a crash.
    """

    body: bytes
    persistent: bool
    priority: int = 0
    expires: bool = False
    deaths: tuple[Death, ...] = ()
    step: int = 0
    source: str = ""
    number: int = 0
    born: int = 0
    redelivered: bool = False
    returns: int = 0
    is_safe: bool = False

    @property
    def identity(self) -> Identity:
        """What tells it from all others."""
        return self.body, self.deaths


@dataclass(slots=True, eq=False)
class ModelQueue:
    """One queue from its declaration to its end.

    Attributes:
        shape: How it was declared.
        owner: The connection that it belongs to alone.
        ready: In order, as far as there is one.
        unacked: Delivered and not answered.
        returnable: Settled, and a crash may bring it back.
        is_deleted: Whether it is gone.
    """

    shape: Shape
    owner: object = None
    ready: list[Message] = field(default_factory=list)
    unacked: list[Message] = field(default_factory=list)
    returnable: list[Message] = field(default_factory=list)
    is_deleted: bool = False

    def level(self, message: Message) -> int:
        """Return the priority that counts here."""
        return min(message.priority, self.shape.max_priority or 0)

    def goes_before(self, one: Message, other: Message) -> bool:
        """Return whether `one` must be delivered before `other` if both are ready."""
        levels = self.level(one), self.level(other)
        if levels[0] != levels[1]:
            return levels[0] > levels[1]
        if one.step != other.step:
            return one.step < other.step
        return one.source == other.source and one.number < other.number

    def make_ready(self, messages: Iterable[Message]) -> None:
        """Put messages into their places."""
        self.ready += messages
        self.ready.sort(key=lambda m: (-self.level(m), m.step, m.source, m.number))

    def excess(self) -> Message | None:
        """Return what has to go to keep the limits."""
        shape = self.shape
        if not self.ready or shape.refuses:
            return None
        too_many = shape.max_length is not None and len(self.ready) > shape.max_length
        octets = sum(len(message.body) for message in self.ready)
        too_much = shape.max_bytes is not None and octets > shape.max_bytes
        return self.ready[0] if too_many or too_much else None

    def settle(self, message: Message, *, may_return: bool = True) -> None:
        """Be done with a message that is neither ready nor unacked any more."""
        if may_return and self.shape.survives and message.persistent:
            self.returnable.append(message)


@dataclass(frozen=True, slots=True)
class Binding:
    """From an exchange to a queue or another exchange, by name."""

    source: str
    destination: str
    key: str
    to_exchange: bool = False


class Model:
    """All queues and bindings of one run.

    Attributes:
        queues: Those that are there, by name.
        bindings: All of them.
        exchanges: Names of those that are there, with their types.
        step: Number of the operation under way.
    """

    def __init__(self) -> None:
        self.queues: dict[str, ModelQueue] = {}
        self.bindings: set[Binding] = set()
        self.exchanges = dict(EXCHANGES)
        self.step = 0
        self._numbers = count()

    # Routing

    def route(self, exchange: str, key: str) -> list[str]:
        """Return the names of the queues that a message goes to."""
        if not exchange:
            return [key] if key in self.queues else []
        found, visited, open_exchanges = set[str](), {exchange}, [exchange]
        while open_exchanges:
            source = open_exchanges.pop()
            for binding in self.bindings:
                if binding.source != source or not self._matches(binding, key):
                    continue
                if not binding.to_exchange:
                    found.add(binding.destination)
                elif binding.destination not in visited:
                    visited.add(binding.destination)
                    open_exchanges.append(binding.destination)
        return sorted(found)

    def _matches(self, binding: Binding, key: str) -> bool:
        kind = self.exchanges.get(binding.source)
        if kind == "topic":
            return topic_matches(binding.key.split("."), key.split("."))
        return kind == "fanout" or (kind == "direct" and binding.key == key)

    # Messages in

    def publish(self, name: str, message: Message, source: str = "publish") -> bool:
        """Let a copy of a message into a queue; return whether it was taken."""
        queue = self.queues[name]
        shape = queue.shape
        copy = replace(message, step=self.step, source=source, number=next(self._numbers))
        copy.redelivered, copy.returns, copy.born = False, 0, copy.number
        copy.expires = message.expires or shape.ttl_ms == 0
        if shape.max_length is not None and shape.refuses and len(queue.ready) >= shape.max_length:
            if shape.overflow == "reject-publish-dlx":
                self.drop(queue, [replace(copy, is_safe=False)], "maxlen")
            return False
        queue.make_ready([copy])
        return True

    # Messages out

    def deliver(self, queue: ModelQueue, message: Message, *, no_ack: bool) -> None:
        """Take note that a ready message was delivered."""
        queue.ready.remove(message)
        if no_ack:
            queue.settle(message)
        else:
            queue.unacked.append(message)

    def settle(self, queue: ModelQueue, messages: list[Message], *, may_return: bool) -> None:
        """Take note that a consumer is done with messages."""
        for message in messages:
            queue.unacked.remove(message)
            queue.settle(message, may_return=may_return)

    def reject(self, queue: ModelQueue, messages: list[Message]) -> None:
        """Take note that a consumer does not want messages."""
        for message in messages:
            queue.unacked.remove(message)
        self.drop(queue, messages, "rejected")

    def requeue(self, queue: ModelQueue, messages: list[Message]) -> None:
        """Put unacked messages back into their places."""
        limit = queue.shape.delivery_limit
        over = []
        for message in messages:
            queue.unacked.remove(message)
            message.redelivered = True
            message.returns += 1
            if limit is not None and message.returns > limit:
                over.append(message)
            else:
                queue.make_ready([message])
        self.drop(queue, over, "delivery_limit")
        self._expire(queue, messages)

    def drop(self, queue: ModelQueue, messages: list[Message], reason: str) -> None:
        """Be done with messages that are neither ready nor unacked, or make dead letters."""
        for message in messages:
            queue.settle(message)
            if queue.shape.dead_to is None or queue.is_deleted:
                continue
            name = queue.shape.name
            copy = replace(message, deaths=add_death(message.deaths, name, reason), expires=False)
            copy.is_safe = message.is_safe and queue.shape.survives
            for target in self.route(*queue.shape.dead_to):
                if reason == "rejected" or not is_cycle(target, copy.deaths):
                    self.publish(target, copy, f"{name} {reason}")

    def tidy(self, queue: ModelQueue) -> bool:
        """Let expire what nobody took, and drop what is too much; return whether that was any."""
        return self._expire(queue, queue.ready) or self._keep_limits(queue)

    def _expire(self, queue: ModelQueue, among: list[Message]) -> bool:
        # What comes in the same moment is offered to consumers first.
        expired = [message for message in queue.ready if message.expires and message in among]
        queue.ready = [message for message in queue.ready if message not in expired]
        self.drop(queue, sorted(expired, key=lambda m: (m.step, m.number)), "expired")
        return bool(expired)

    def _keep_limits(self, queue: ModelQueue) -> bool:
        head = queue.excess()
        if head is not None:
            queue.ready.remove(head)
            self.drop(queue, [head], "maxlen")
        return head is not None

    # Whole queues

    def purge(self, queue: ModelQueue) -> int:
        """Forget what is ready; nothing that was settled returns after that."""
        purged = len(queue.ready)
        queue.ready.clear()
        queue.returnable.clear()
        return purged

    def delete(self, name: str) -> ModelQueue:
        """Forget a queue and its bindings."""
        queue = self.queues.pop(name)
        queue.is_deleted = True
        self.bindings = {b for b in self.bindings if b.to_exchange or b.destination != name}
        return queue

    def restart(self) -> None:
        """Forget what no restart brings back; nothing is unacked any more."""
        for name, queue in list(self.queues.items()):
            assert not queue.unacked, "its client is gone"
            if not queue.shape.survives:
                self.delete(name)
            queue.ready = [message for message in queue.ready if message.persistent]
        self.exchanges.pop("passing", None)
        self.bindings = {
            binding
            for binding in self.bindings
            if "passing" not in (binding.source, binding.destination)
        }

    def all_messages(self) -> Iterator[tuple[ModelQueue, Message]]:
        """Iterate over what is ready or unacked."""
        for queue in self.queues.values():
            for message in (*queue.ready, *queue.unacked):
                yield queue, message


def add_death(deaths: tuple[Death, ...], queue: str, reason: str) -> tuple[Death, ...]:
    """Return the deaths with one more in front."""
    counts = Counter({(where, why): times for where, why, times in deaths})
    others = tuple(death for death in deaths if death[:2] != (queue, reason))
    return ((queue, reason, counts[queue, reason] + 1), *others)


def is_cycle(target: str, deaths: tuple[Death, ...]) -> bool:
    """Return whether a message has been in `target`, and nobody rejected it since."""
    for at, (queue, _, _) in enumerate(deaths):
        if queue == target:
            return all(reason != "rejected" for _, reason, _ in deaths[: at + 1])
    return False


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Return whether a topic key matches: `*` is one word, `#` any number."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])
