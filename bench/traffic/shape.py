"""What the messages of a row look like: sizes, routing keys, properties."""

import math
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.amqp_frames import short_string
from bench.traffic.frames import FIELD_DIGITS

BINDINGS: Final = 100
"""Binding keys of each queue."""
FEW_KEYS: Final = 64
PLACEHOLDER: Final = "g" * 16
"""Stands for 16 hexadecimal digits of a message's id; `g` is no digit."""
PLACEHOLDER_IN_UUID: Final = "gggg-gggggggggggg"
"""The same digits at the end of a UUID."""
TIME_PLACEHOLDER: Final = b"\xffseconds"
"""Stands for the timestamp; the octet 0xFF is in no UTF-8 text."""
_REGIONS: Final = ("eu-west-1", "eu-central-1", "us-east-1", "ap-south-1")
_VERBS: Final = ("created", "updated", "paid", "shipped", "cancelled", "refunded", "viewed")
_SERVICES: Final = ("orders", "billing", "stock", "users", "search", "mail", "audit", "carts")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of bodies: log-normal, cut off at both ends.

    Attributes:
        median: Half of the bodies are smaller, in bytes.
        spread: Standard deviation of the size's natural logarithm.
        least: Smallest body, at least FIELD_DIGITS bytes.
        most: Largest body.
    """

    median: int = 600
    spread: float = 1.0
    least: int = FIELD_DIGITS
    most: int = 60_000

    def draw(self, random: Random) -> int:
        """Return the size of one body."""
        size = round(random.lognormvariate(math.log(self.median), self.spread))
        return min(max(size, self.least), self.most)


SERVICE_SIZES: Final = Sizes()


@dataclass(frozen=True, slots=True)
class Properties:
    """The encoded properties of a message, which ids and time are written into later.

    Attributes:
        flags: Property flags of the content header.
        octets: Property list.
    """

    flags: int
    octets: bytes


def service_name(queue: int) -> str:
    """Return the first word of a queue's routing keys."""
    return f"{_SERVICES[queue % len(_SERVICES)]}{queue // len(_SERVICES)}"


def entity_name(queue: int, entity: int) -> str:
    """Return the second word of a routing key; no two queues share one."""
    return f"{service_name(queue)}-{entity:02}"


def binding_keys(queue: int) -> list[str]:
    """Return the binding keys of a queue; each routing key matches exactly one of all queues'."""
    service = service_name(queue)
    keys = []
    for entity in range(BINDINGS):
        name = entity_name(queue, entity)
        kinds = (f"{service}.{name}.#", f"*.{name}.#", f"{service}.{name}.*.#", f"#.{name}.#")
        keys.append(kinds[entity % len(kinds)])
    return keys


def few_routing_keys(queues: int) -> list[str]:
    """Return FEW_KEYS routing keys, spread evenly over the queues."""
    return [
        f"{service_name(i % queues)}.{entity_name(i % queues, i // queues)}"
        f".{_REGIONS[i % len(_REGIONS)]}.{_VERBS[i % len(_VERBS)]}"
        for i in range(FEW_KEYS)
    ]


def unbounded_routing_key(random: Random, queues: int) -> str:
    """Return a routing key with the placeholder of the message's id in it."""
    queue = random.randrange(queues)
    entity = entity_name(queue, random.randrange(BINDINGS))
    return (
        f"{service_name(queue)}.{entity}.{random.choice(_REGIONS)}.{PLACEHOLDER}"
        f".{random.choice(_VERBS)}"
    )


def service_properties(
    random: Random, *, persistent: bool, has_correlation: bool, reply_to: str = ""
) -> Properties:
    """Encode content-type, headers, delivery mode, ids and timestamp, with placeholders.

    The headers are `traceparent`, `tenant` and `attempt`, as services send them.

    Args:
        random: Source of the values.
        persistent: Whether the delivery mode is 2.
        has_correlation: Whether there is a correlation-id.
        reply_to: The reply-to; "" for none.
    """
    trace = f"00-{random.getrandbits(64):016x}{PLACEHOLDER}-{random.getrandbits(64):016x}-01"
    headers = (
        _text_field("traceparent", trace)
        + _text_field("tenant", f"tenant-{random.randrange(5000)}")
        + short_string("attempt")
        + b"I"
        + min(5, 1 + int(random.expovariate(2))).to_bytes(4)
    )
    flags = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 7 | 1 << 6
    octets = short_string("application/octet-stream") + len(headers).to_bytes(4) + headers
    octets += bytes((2 if persistent else 1,))
    if has_correlation:
        flags |= 1 << 10
        octets += short_string(uuid_with_placeholder(random))
    if reply_to:
        flags |= 1 << 9
        octets += short_string(reply_to)
    octets += short_string(uuid_with_placeholder(random)) + TIME_PLACEHOLDER
    return Properties(flags, octets)


def uuid_with_placeholder(random: Random) -> str:
    """Return a UUID whose last 16 digits are the message's id."""
    return f"{random.getrandbits(32):08x}-{random.getrandbits(16):04x}-4a5b-{PLACEHOLDER_IN_UUID}"


def _text_field(name: str, value: str) -> bytes:
    return short_string(name) + b"S" + len(value).to_bytes(4) + value.encode()
