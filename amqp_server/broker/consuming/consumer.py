"""A consumer: where its messages come from and go to, and how many more it may get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.consuming.source import Source

if TYPE_CHECKING:
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.counters.delivery_pair import DeliveryPair
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.protocol.methods import Method
    from amqp_server.protocol.tables import Table

CREDIT_UNLIMITED = 1 << 30
"""Credit of a consumer without a prefetch limit; the write buffer limits it instead."""


class DeliveryChannel(Protocol):
    """A channel, as its consumers see it."""

    @property
    def client(self) -> Client:
        """Connection of the channel."""

    @property
    def consumers(self) -> dict[str, Consumer]:
        """Consumers of the channel by tag."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be sent any more."""

    @property
    def credit(self) -> int:
        """Deliveries that the channel as a whole may send now, beside its unacked ones."""

    def deliver(
        self, consumer: Consumer, first_offset: int, messages: Delivered, *, redelivered: bool
    ) -> None:
        """Send messages with consecutive offsets to a consumer of this channel."""

    def send(self, method: Method) -> None:
        """Send a method without content on this channel."""

    def report_ended(self, consumer: Consumer) -> None:
        """Report that a consumer of this channel has ended."""


class ConsumedQueue(Source, Protocol):
    """A queue, as its consumers see it: the source of most of them."""

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def settings(self) -> QueueSettings:
        """Settings that the arguments of the queue give."""

    @property
    def ready_count(self) -> int:
        """Messages that may be delivered."""

    @property
    def delivers_on(self) -> bool:
        """Whether the slice was over before all was delivered that could be."""

    def bring_up_to_date(self) -> bool:
        """Deliver and drop what is due; return False if there is more, for `until_up_to_date`."""

    async def until_up_to_date(self) -> None:
        """Return when nothing more is due."""


class Consumer:
    """One `basic.consume` of one channel.

    Args:
        tag: Consumer tag, unique in its channel.
        channel: Channel that the deliveries go out on.
        queue: Queue that `basic.consume` named.
        counters: Counts its deliveries and their acks, with those of the channel's other consumers
            of the queue.
        source: Queue or subscription that the messages come from; None means `queue`.
        no_ack: Whether a delivery settles its message at once.
        exclusive: Whether the queue accepts no other consumer.
        prefetch: Most unacked deliveries at a time; 0 = no limit.
        priority: Any integer; consumers of the queue with a higher one are served first.
        timeout_ms: Time to acknowledge a delivery, in milliseconds; 0 = no limit.
        arguments: Arguments of `basic.consume`, which are shown; None: there were none.

    Attributes:
        unacked: Deliveries that it has not answered.
        aside_of: Rotation in which it stands aside: it has all that it may take, or its channel is
            closed.
    """

    __slots__ = (
        "_next_offset",
        "arguments",
        "aside_of",
        "channel",
        "counters",
        "exclusive",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "source",
        "tag",
        "tag_octets",
        "timeout_ms",
        "unacked",
    )

    def __init__(
        self,
        tag: str,
        channel: DeliveryChannel,
        queue: ConsumedQueue,
        counters: DeliveryPair,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        priority: int = 0,
        timeout_ms: int,
        source: Source | None = None,
        arguments: Table | None = None,
    ) -> None:
        self.tag = tag
        self.tag_octets = tag.encode("utf-8", "surrogateescape")
        self.channel = channel
        self.queue = queue
        self.counters = counters
        self.source: Source = queue if source is None else source
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.timeout_ms = timeout_ms
        self.arguments = arguments
        self.unacked = 0
        self.aside_of: ConsumerRotation | None = None
        self._next_offset = 0

    def move(self, source: Source) -> None:
        """Take messages from another place of the same log from now on."""
        self.source = source
        self._next_offset = 0

    @property
    def credit(self) -> int:
        """Messages that may be delivered now; 0 if consumer, channel or client is full."""
        credit = self.channel.credit
        if self.no_ack:
            # The consumer uses none of the channel's limit, but an exhausted channel gets nothing.
            return CREDIT_UNLIMITED if credit else 0
        if self.prefetch:
            return max(min(credit, self.prefetch - self.unacked), 0)
        return credit

    def change_prefetch(self, count: int) -> None:
        """Limit its unacked deliveries to `count` from now on; 0 = no limit."""
        self.prefetch = count
        if self.aside_of is not None:
            self.aside_of.take_back(self)

    def deliver(self, first_offset: int, messages: Delivered, *, redelivered: bool) -> None:
        """Send messages of the queue with consecutive offsets to the client."""
        if not redelivered:
            assert (
                first_offset >= self._next_offset or self.queue.settings.max_priority is not None
            ), "I7: deliveries to a consumer went back"
            self._next_offset = first_offset + len(messages)
        self.channel.deliver(self, first_offset, messages, redelivered=redelivered)
