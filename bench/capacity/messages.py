"""Persistent messages of services: each has its own body, headers and ids."""

from dataclasses import dataclass
from random import Random
from typing import Final

from bench.amqp_frames import short_string
from bench.traffic.corpus import encode_publish, new_body
from bench.traffic.shape import SERVICE_SIZES, service_properties

EXCHANGE: Final = ""
_CORRELATION_EVERY: Final = 3


@dataclass(frozen=True, slots=True)
class EncodedPublish:
    """One publish to the default exchange.

    Attributes:
        octets: Its frames.
        body_bytes: Octets of its body.
        header_bytes: Octets of its properties, headers, exchange and routing key.
    """

    octets: bytes
    body_bytes: int
    header_bytes: int


class ServicePublishes:
    """Makes publishes as `bench traffic` sends them.

    Args:
        channel: Number of the channel.
        seed: Seed of sizes and headers; the same publishes for the same seed.
    """

    def __init__(self, channel: int, seed: int) -> None:
        self._channel = channel
        self._random = Random(seed)
        self._made = 0

    def encode(self, queue: str) -> EncodedPublish:
        """Return the next publish, to this queue."""
        has_correlation = self._made % _CORRELATION_EVERY == 0
        self._made += 1
        properties = service_properties(
            self._random, persistent=True, has_correlation=has_correlation
        )
        body = new_body(self._random, SERVICE_SIZES.draw(self._random))
        octets, _ = encode_publish(self._channel, EXCHANGE, queue, properties, body)
        names_bytes = len(short_string(EXCHANGE)) + len(short_string(queue))
        return EncodedPublish(octets, len(body), len(properties.octets) + names_bytes)
