"""A channel: publishes in, deliveries out, and what is outstanding in both directions.

What arrives in runs (publishes, acknowledgements) is handled here, a run at a time; all
other methods go to `handlers`, one function each. Nothing here knows a socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.broker.confirms import Barrier, PublisherConfirms
from amqp_server.broker.content_assembly import ContentAssembly
from amqp_server.broker.unacked import UnackedRuns
from amqp_server.protocol.constants import ReplyCode
from amqp_server.protocol.errors import (
    AccessRefused,
    NotFound,
    NotImplementedAmqp,
    PreconditionFailed,
    UnexpectedFrame,
)
from amqp_server.protocol.framing import encode_content, encode_deliveries
from amqp_server.protocol.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    decode_method,
    method_frame,
)
from amqp_server.protocol.properties import decode_properties
from appendlog.message import PERSISTENT, decode_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.client import Client
    from amqp_server.broker.consumer import Consumer
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.unacked import UnackedRun
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.methods import Method

TARGETS_MAX = 4096
"""Publish frames whose routing a channel remembers."""
_USER_ID_FLAG = 1 << 4
_RETURN_HEAD = b"\x00\x3c\x00\x32"


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """Where the messages of one `basic.publish` frame go, as long as no binding changes."""

    exchange: Exchange
    routing_key: str
    mandatory: bool
    reads_headers: bool
    queues: Sequence[Queue]
    method: BasicPublish


class Channel:
    """One open channel of one client.

    Args:
        number: Its number, 1 to channel_max.
        client: The connection it belongs to.
        virtual_host: What the connection opened.
        broker: For what concerns the whole server.
    """

    def __init__(
        self, number: int, client: Client, virtual_host: VirtualHost, broker: Broker
    ) -> None:
        """Open the channel."""
        self.number = number
        self.client = client
        self.virtual_host = virtual_host
        self.broker = broker
        self.consumers: dict[str, Consumer] = {}
        self.confirms: PublisherConfirms | None = None
        self.unacked = UnackedRuns()
        self.prefetch = 0
        self.prefetch_global = 0
        self.last_queue_name: str | None = None
        self.is_closed = False
        self._delivered_tag = 0
        self._assembly: ContentAssembly | None = None
        self._targets: dict[bytes, PublishTarget] = {}
        self._targets_version = -1
        self._unacked_max = broker.config.limits.unacked_messages_per_channel_max

    @property
    def is_deliverable(self) -> bool:
        """Whether deliveries may be sent now."""
        return self.client.is_writable and not self.is_closed

    @property
    def credit(self) -> int:
        """Deliveries that the channel as a whole may still have outstanding."""
        limit = self.prefetch_global or self._unacked_max
        return max(limit - self.unacked.count, 0)

    def send(self, method: Method) -> None:
        """Send a method without content on this channel."""
        self.client.write(method_frame(self.number, method))

    # Publishing

    def publish_run(
        self, method_payload: bytes, messages: list[bytes], property_flags: int, message_flags: int
    ) -> None:
        """Route and take in messages that share one publish frame and their kinds of properties.

        Raises:
            AmqpError: The exchange is missing or refuses; nothing of the run was taken in.
            UnexpectedFrame: Another message's content was still awaited.
        """
        if self._assembly is not None:
            raise self._assembly.out_of_place
        target = self._target(method_payload)
        if property_flags & _USER_ID_FLAG:
            self._check_user_id(target, messages)
        persistent = bool(message_flags & PERSISTENT)
        if not target.reads_headers:
            self._enqueue(target, target.queues, messages, persistent=persistent)
            return
        for message in messages:
            properties = decode_properties(decode_message(message).properties)
            queues = self.virtual_host.route(
                target.exchange, target.routing_key, properties.headers
            )
            self._enqueue(target, queues, [message], persistent=persistent)

    def begin_content(self, payload: bytes) -> None:
        """Begin a publish whose content comes frame by frame."""
        method = decode_method(payload)
        assert isinstance(method, BasicPublish), "only basic.publish carries content from a client"
        self._target(payload)
        self._assembly = ContentAssembly(method, payload, self.broker.config.max_message_bytes)

    def take_header(self, payload: bytes) -> None:
        """Take a content header frame that came by itself."""
        if self._assembly is None:
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        if self._assembly.take_header(payload):
            self._finish_content()

    def take_body(self, payload: bytes) -> None:
        """Take a content body frame that came by itself."""
        if self._assembly is None:
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        if self._assembly.take_body(payload):
            self._finish_content()

    def expect_method(self) -> None:
        """Check that a method may come now.

        Raises:
            UnexpectedFrame: The content of a publish is awaited.
        """
        if self._assembly is not None:
            raise self._assembly.out_of_place

    def release_confirms(self) -> None:
        """Answer every publish that has become safe, or has failed, since the last time."""
        if self.confirms is None or self.is_closed:
            return
        answered = self.confirms.answered_tag
        for answer in self.confirms.release():
            multiple = answer.last_tag > answered + 1
            answered = answer.last_tag
            if answer.refused:
                self.send(BasicNack(delivery_tag=answer.last_tag, multiple=multiple, requeue=False))
            else:
                self.send(BasicAck(delivery_tag=answer.last_tag, multiple=multiple))

    @property
    def awaits_confirms(self) -> bool:
        """Whether publishes of this channel are not answered yet."""
        return not self.is_closed and self.confirms is not None and len(self.confirms) > 0

    def run_turn(self) -> None:
        """Confirm what waited for nothing."""
        self.release_confirms()

    def _finish_content(self) -> None:
        assembly, self._assembly = self._assembly, None
        assert assembly is not None, "no content to finish"
        self.publish_run(
            assembly.method_payload,
            [assembly.message],
            assembly.property_flags,
            assembly.message_flags,
        )

    def _target(self, method_payload: bytes) -> PublishTarget:
        if self._targets_version != self.virtual_host.routing_version:
            self._targets.clear()
            self._targets_version = self.virtual_host.routing_version
        target = self._targets.get(method_payload)
        if target is None:
            target = self._resolve(method_payload)
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[method_payload] = target
        return target

    def _resolve(self, method_payload: bytes) -> PublishTarget:
        method = decode_method(method_payload)
        assert isinstance(method, BasicPublish), "a run carries basic.publish"
        vhost = self.virtual_host
        exchange = vhost.exchanges.get(method.exchange)
        if exchange is None:
            raise NotFound(f"no exchange '{method.exchange}' in vhost '{vhost.name}'", 60, 40)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'",
                60,
                40,
            )
        if method.immediate:
            raise NotImplementedAmqp("immediate=true", 60, 40)
        reads_headers = vhost.reads_headers(exchange)
        queues = () if reads_headers else vhost.route(exchange, method.routing_key, None)
        return PublishTarget(
            exchange, method.routing_key, method.mandatory, reads_headers, queues, method
        )

    def _check_user_id(self, target: PublishTarget, messages: list[bytes]) -> None:
        for message in messages:
            user_id = decode_properties(decode_message(message).properties).user_id
            if user_id != self.client.user:
                raise PreconditionFailed(
                    f"user_id property set to '{user_id}' but authenticated user was "
                    f"'{self.client.user}'",
                    60,
                    40,
                )

    def _enqueue(
        self,
        target: PublishTarget,
        queues: Sequence[Queue],
        messages: list[bytes],
        *,
        persistent: bool,
    ) -> None:
        barriers = []
        refused = False
        for queue in queues:
            if queue.store.is_failed:
                refused = True
                continue
            end_offset = queue.publish(messages, persistent=persistent)
            if queue.store.is_stalled:
                queue.stalled_publishers.add(self.client)
                self.client.pause_reading(queue)
            if persistent and queue.is_journaled and queue.store.confirmed_end < end_offset:
                barriers.append(Barrier(queue, end_offset))
        if target.mandatory and not queues:
            self._return(messages)
        if self.confirms is not None:
            self.confirms.add(len(messages), barriers, refused=refused)
            for barrier in barriers:
                barrier.queue.waiting_confirms.add(self)
            if not barriers:
                self.broker.turn.mark(self)

    def _return(self, messages: list[bytes]) -> None:
        text = b"NO_ROUTE"
        head = _RETURN_HEAD + ReplyCode.NO_ROUTE.to_bytes(2, "big") + bytes([len(text)]) + text
        for message in messages:
            self.client.write(
                encode_content(message, self.number, head, b"", self.client.frame_max)
            )

    # Consuming

    def deliver(
        self, consumer: Consumer, first_offset: int, messages: list[bytes], *, redelivered: bool
    ) -> None:
        """Send a run of neighbouring messages to a consumer of this channel."""
        count = len(messages)
        first_tag = self._delivered_tag + 1
        self._delivered_tag += count
        queue = consumer.queue
        if consumer.no_ack:
            queue.settle(first_offset, first_offset + count)
        else:
            consumer.unacked += count
            self.unacked.add(first_tag, count, queue, first_offset, consumer)
        self.client.write(
            encode_deliveries(
                messages,
                self.number,
                consumer.tag_octets,
                first_tag,
                redelivered,
                self.client.frame_max,
            )
        )

    def hand_over(self, queue: Queue, offset: int, *, no_ack: bool) -> int:
        """Count one message taken with `basic.get` and return its delivery tag."""
        self._delivered_tag += 1
        if no_ack:
            queue.settle(offset, offset + 1)
        else:
            self.unacked.add(self._delivered_tag, 1, queue, offset, None)
        return self._delivered_tag

    def settle_ranges(self, ranges: list[int]) -> None:
        """Settle acknowledged tags: flat pairs first, last; first 0 means all up to last.

        Raises:
            PreconditionFailed: A tag is not outstanding; what came before it is settled.
        """
        for at in range(0, len(ranges), 2):
            self._settle(self.take_unacked(ranges[at], ranges[at + 1]))

    def take_unacked(self, first_tag: int, last_tag: int) -> list[UnackedRun]:
        """Remove and return deliveries; `first_tag` 0 means all up to `last_tag`.

        Raises:
            PreconditionFailed: A tag is not outstanding; the ones before it are settled.
        """
        if first_tag == 0:
            runs = self.unacked.take_up_to(last_tag)
            missing = last_tag if runs is None else None
        else:
            runs, missing = self.unacked.take_range(first_tag, last_tag)
        if missing is not None:
            self._settle(runs or [])
            raise PreconditionFailed(f"unknown delivery tag {missing}", 60, 80)
        assert runs is not None, "either runs or a missing tag"
        return runs

    def requeue(self, runs: list[UnackedRun]) -> None:
        """Put unacked deliveries back to their places."""
        self._give_credit(runs)
        for run in runs:
            if not run.queue.is_deleted:
                run.queue.requeue(run.first_offset, run.end_offset)

    def drop(self, runs: list[UnackedRun]) -> None:
        """Settle rejected deliveries."""
        self._settle(runs)

    def wake_consumers(self) -> None:
        """Let the queues of all consumers look again: credit or room may have come."""
        for consumer in self.consumers.values():
            consumer.queue.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        """End a consumer; its unacked deliveries stay with the channel."""
        del self.consumers[consumer.tag]
        if consumer.queue.remove_consumer(consumer):
            self.broker.delete_unused(consumer.queue)

    def close(self) -> None:
        """End all consumers and give everything unacked back, in its place.

        Done before the client hears that the channel is closed, so that a quick reconnect
        finds its messages.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._assembly = None
        runs = self.unacked.take_all()
        self.requeue(runs)
        for consumer in tuple(self.consumers.values()):
            self.remove_consumer(consumer)

    def _settle(self, runs: list[UnackedRun]) -> None:
        self._give_credit(runs)
        for run in runs:
            if not run.queue.is_deleted:
                run.queue.settle(run.first_offset, run.end_offset)

    def _give_credit(self, runs: list[UnackedRun]) -> None:
        for run in runs:
            if run.consumer is not None:
                run.consumer.unacked -= run.count
                run.queue.wake()
        if self.prefetch_global:
            self.wake_consumers()
