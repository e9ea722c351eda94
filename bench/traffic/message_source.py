"""Where a corpus comes from: messages of services, or publishes that a client has sent.

A publisher's process gets the source, and encodes the corpus itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from bench.publisher import PUBLISH_CHANNEL
from bench.traffic.corpus import Corpus, encode_publish, new_body
from bench.traffic.shape import (
    SERVICE_SIZES,
    Sizes,
    few_routing_keys,
    service_properties,
    unbounded_routing_key,
)

CORPUS_MESSAGES: Final = 20_000
_CORPUS_BYTES_MAX: Final = 64 << 20
_CORRELATION_EVERY: Final = 3


class MessageSource(Protocol):
    """Makes a corpus; it can be pickled."""

    @property
    def lead(self) -> int:
        """Octets before the digits in each body."""

    def encode_corpus(self, seed: int) -> Corpus:
        """Return the corpus of a seed; the same one for the same seed."""


@dataclass(frozen=True, slots=True)
class ServiceMessages:
    """Messages of services: each with its own size, headers, ids and routing key.

    Attributes:
        exchange: Exchange to publish to.
        queues: Number of queues that the routing keys lead to.
        has_new_keys: Whether each message has a new routing key; if not, there are FEW_KEYS.
        is_persistent: Whether the messages are persistent.
        sizes: Sizes of the bodies.
        routing_key: Routing key of all messages instead; "" for the keys above.
        reply_to: Reply-to of all messages; "" for none.
        count: Messages of the corpus, or fewer if they are large.
    """

    exchange: str
    queues: int = 1
    has_new_keys: bool = False
    is_persistent: bool = True
    sizes: Sizes = SERVICE_SIZES
    routing_key: str = ""
    reply_to: str = ""
    count: int = CORPUS_MESSAGES

    @property
    def lead(self) -> int:
        """Octets before the digits: the digits stand first."""
        return 0

    def encode_corpus(self, seed: int) -> Corpus:
        """Return the messages; their bodies have 64 MiB at most."""
        return Corpus(self._messages(Random(seed)))

    def _messages(self, random: Random) -> Iterator[tuple[bytes, bytes]]:
        few = few_routing_keys(self.queues)
        room = _CORPUS_BYTES_MAX
        for i in range(self.count):
            key = self.routing_key or (
                unbounded_routing_key(random, self.queues)
                if self.has_new_keys
                else random.choice(few)
            )
            properties = service_properties(
                random,
                persistent=self.is_persistent,
                has_correlation=bool(self.reply_to) or i % _CORRELATION_EVERY == 0,
                reply_to=self.reply_to,
            )
            body = new_body(random, self.sizes.draw(random))
            yield encode_publish(PUBLISH_CHANNEL, self.exchange, key, properties, body)
            room -= len(body)
            if room < 0:
                return


@dataclass(frozen=True, slots=True)
class RecordedMessages:
    """Publishes that a real client has sent.

    Attributes:
        messages: Frames of each publish, with its body.
        lead: Octets before the digits in each body.
    """

    messages: tuple[tuple[bytes, bytes], ...]
    lead: int

    def encode_corpus(self, seed: int) -> Corpus:
        """Return the messages again and again, in an order that the seed gives."""
        order = list(self.messages) * max(1, CORPUS_MESSAGES // len(self.messages))
        Random(seed).shuffle(order)
        return Corpus(order, lead=self.lead)
