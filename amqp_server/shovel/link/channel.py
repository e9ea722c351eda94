"""One channel of a connection: calls, publishes, deliveries and confirms."""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from amqp_server.protocol.errors import AmqpError, UnexpectedFrame
from amqp_server.protocol.framing import AckRun, ContentBody, ContentHeader, MethodFrame
from amqp_server.protocol.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    decode_method,
    method_frame,
)
from amqp_server.protocol.strings import decode_shortstr
from amqp_server.shovel.link.confirms import Confirms
from amqp_server.shovel.link.deliveries import Deliveries, Delivery
from amqp_server.shovel.link.errors import ConsumerCancelled, LinkClosed, LinkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.protocol.field_values import Table
    from amqp_server.protocol.framing import Event
    from amqp_server.protocol.methods import Method

MethodT = TypeVar("MethodT", bound="Method")

BODY_BYTES_MAX: Final = 512 * 1024 * 1024
"""Largest body that is accepted."""
_DELIVER: Final = BasicDeliver.identity
_RETURN: Final = BasicReturn.identity
_TAG: Final = Struct(">QB")
_SIZE: Final = Struct(">Q")
_SIZE_AT: Final = 4
_HEADER_BYTES_MIN: Final = 14
_FRAME: Final = Struct(">BHI")
_END: Final = b"\xce"


class ChannelConnection(Protocol):
    """Connection, as its channels use it.

    Attributes:
        blocked_reason: Why the broker lets it publish nothing; empty if it does.
    """

    blocked_reason: str

    @property
    def frame_max(self) -> int:
        """Largest frame in octets, framing included."""

    def write(self, octets: bytes) -> None:
        """Send octets."""

    async def drained(self) -> None:
        """Wait until the socket takes more and the broker lets us publish."""

    def resume_reading(self) -> None:
        """Read again."""

    def forget(self, number: int) -> None:
        """Let another channel have this number."""

    def fail(self, error: LinkClosed) -> None:
        """End the connection because of what the peer did."""


class Returned:
    """A message that the broker could not route.

    Attributes:
        code: Reply code.
        text: Reply text.
        route: Exchange and routing key, as in `Delivery`.
        header: Payload of the content header.
        body: The body.
    """

    __slots__ = ("body", "code", "header", "route", "text")

    def __init__(self, method: BasicReturn, route: bytes, header: bytes, body: bytes) -> None:
        self.code = method.reply_code
        self.text = method.reply_text
        self.route = route
        self.header = header
        self.body = body


class LinkChannel:
    """A channel; its connection opens it. One task uses it at a time.

    Args:
        connection: Connection that it belongs to.
        number: Channel number.

    Attributes:
        number: Channel number.
        frame_max: Largest frame in octets, framing included.
        confirms: Counts of publishes and confirms; None without confirm mode.
        on_settled: Is called after each read in which the broker has settled publishes.
        on_returned: Is called with each message that the broker returns, before its confirm.
    """

    def __init__(self, connection: ChannelConnection, number: int) -> None:
        self._connection = connection
        self.number = number
        self.frame_max = connection.frame_max
        self.confirms: Confirms | None = None
        self.on_settled: Callable[[], None] | None = None
        self.on_returned: Callable[[Returned], None] | None = None
        self._activity = asyncio.Event()
        self._calls = asyncio.Lock()
        self._reply: asyncio.Future[Method] | None = None
        self._error: LinkClosed | None = None
        self._deliveries: dict[bytes, Deliveries] = {}
        self._is_closing = False
        self._is_settled = False
        # The content that is arriving: its method, its header, what is missing, what has come.
        self._method = b""
        self._header = b""
        self._missing = 0
        self._parts: list[bytes] = []

    # Calls

    async def open(self) -> None:
        """Open it; the connection calls this."""
        await self._call(ChannelOpen(), ChannelOpenOk)

    async def close(self) -> None:
        """Close it: what is not acked goes back to its queue. Does nothing if it has ended."""
        self._is_closing = True
        for each in self._deliveries.values():
            each.drop()
        try:
            await self._call(ChannelClose(reply_code=200, reply_text="done"), ChannelCloseOk)
        except LinkClosed:
            return
        self.end(LinkClosed(0, "the channel is closed"))
        self._connection.forget(self.number)

    async def declare_queue(
        self,
        name: str,
        arguments: Table | None = None,
        *,
        is_passive: bool = False,
        is_durable: bool = True,
        is_exclusive: bool = False,
        is_auto_delete: bool = False,
    ) -> QueueDeclareOk:
        """Declare a queue; return its name and its counts.

        Raises:
            LinkClosed: The broker refuses.
        """
        method = QueueDeclare(
            queue=name,
            passive=is_passive,
            durable=is_durable,
            exclusive=is_exclusive,
            auto_delete=is_auto_delete,
            arguments=arguments or {},
        )
        return await self._call(method, QueueDeclareOk)

    async def queue_counts(self, name: str) -> tuple[int, int]:
        """Return the ready messages and the consumers of a queue.

        Raises:
            LinkClosed: There is no such queue.
        """
        found = await self.declare_queue(name, is_passive=True)
        return found.message_count, found.consumer_count

    async def declare_exchange(
        self,
        name: str,
        type_: str = "direct",
        arguments: Table | None = None,
        *,
        is_passive: bool = False,
        is_durable: bool = True,
    ) -> None:
        """Declare an exchange.

        Raises:
            LinkClosed: The broker refuses.
        """
        method = ExchangeDeclare(
            exchange=name,
            type=type_,
            passive=is_passive,
            durable=is_durable,
            arguments=arguments or {},
        )
        await self._call(method, ExchangeDeclareOk)

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Table | None = None
    ) -> None:
        """Bind a queue to an exchange.

        Raises:
            LinkClosed: The broker refuses.
        """
        method = QueueBind(
            queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments or {}
        )
        await self._call(method, QueueBindOk)

    async def delete_queue(self, name: str) -> int:
        """Delete a queue; return how many ready messages it had."""
        return (await self._call(QueueDelete(queue=name), QueueDeleteOk)).message_count

    async def purge_queue(self, name: str) -> int:
        """Drop the ready messages of a queue; return how many there were."""
        return (await self._call(QueuePurge(queue=name), QueuePurgeOk)).message_count

    async def set_prefetch(self, count: int) -> None:
        """Limit the unacked deliveries of each consumer that begins after this; 0: no limit."""
        await self._call(BasicQos(prefetch_count=count), BasicQosOk)

    async def confirm_select(self) -> Confirms:
        """Ask for confirms from now on; return where they are counted."""
        await self._call(ConfirmSelect(), ConfirmSelectOk)
        if self.confirms is None:
            self.confirms = Confirms()
        return self.confirms

    async def consume(
        self,
        queue: str,
        arguments: Table | None = None,
        *,
        no_ack: bool = False,
        consumer_tag: str = "link",
        is_exclusive: bool = False,
    ) -> Deliveries:
        """Start a consumer; return its deliveries.

        Args:
            queue: Name of the queue.
            arguments: Arguments of the consumer.
            no_ack: Whether the broker settles a message when it sends it.
            consumer_tag: Tag of the consumer, one of its own on this channel.
            is_exclusive: Whether it must be the only consumer of the queue.

        Raises:
            LinkClosed: The broker refuses.
        """
        raw = consumer_tag.encode()
        if raw in self._deliveries:
            raise ValueError(f"the channel has a consumer '{consumer_tag}'")
        # The first deliveries may come in one read with the answer.
        deliveries = self._deliveries[raw] = Deliveries(self, consumer_tag)
        method = BasicConsume(
            queue=queue,
            consumer_tag=consumer_tag,
            no_ack=no_ack,
            exclusive=is_exclusive,
            arguments=arguments or {},
        )
        await self._call(method, BasicConsumeOk)
        return deliveries

    async def cancel(self, deliveries: Deliveries) -> None:
        """Stop a consumer, and forget what it has received and its owner has not taken."""
        deliveries.drop()
        await self._call(BasicCancel(consumer_tag=deliveries.consumer_tag), BasicCancelOk)
        self._deliveries.pop(deliveries.consumer_tag.encode(), None)

    async def finish(self, deliveries: Deliveries) -> list[Delivery]:
        """Stop a consumer; return what it has received, which can still be settled.

        Raises:
            LinkClosed: The channel or its connection has ended.
        """
        taken = deliveries.take()
        method = BasicCancel(consumer_tag=deliveries.consumer_tag)
        call = asyncio.ensure_future(self._call(method, BasicCancelOk))
        while not call.done():
            # Deliveries before the answer must be taken, or the connection would not be read.
            activity = asyncio.ensure_future(self.activity())
            await asyncio.wait((call, activity), return_when=asyncio.FIRST_COMPLETED)
            activity.cancel()
            taken += deliveries.take()
        await call
        self._deliveries.pop(deliveries.consumer_tag.encode(), None)
        return taken

    async def _call(self, method: Method, answer: type[MethodT]) -> MethodT:
        """Send a method and return its answer.

        Raises:
            LinkClosed: The channel or its connection has ended.
        """
        async with self._calls:
            self.check_open()
            reply = self._reply = asyncio.get_running_loop().create_future()
            try:
                self._connection.write(method_frame(self.number, method))
                found = await reply
            finally:
                self._reply = None
        if not isinstance(found, answer):
            text = f"the peer answered {method.name} with {found.name}"
            self._connection.fail(LinkClosed(0, text))
            raise LinkClosed(0, text)
        return found

    # Messages

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        header: bytes,
        body: bytes,
        *,
        is_mandatory: bool = True,
    ) -> None:
        """Publish a message; wait until the socket takes more.

        Args:
            exchange: Name of the exchange.
            routing_key: Routing key.
            header: Payload of the content header, as in `Delivery.header`.
            body: The body; its length is in the header.
            is_mandatory: Whether the broker returns it if no queue gets it.

        Raises:
            LinkClosed: The channel or its connection has ended.
            LinkError: The header is larger than a frame of this connection.
        """
        self.check_open()
        start = publish_frame(self.number, exchange, routing_key, is_mandatory=is_mandatory)
        self.write_publishes(self.content_frames(start, header, body), 1)
        await self._connection.drained()

    def content_frames(self, publish: bytes, header: bytes, body: bytes) -> list[bytes]:
        """Return the octets of a publish with its content, in pieces.

        Raises:
            LinkError: The header is larger than a frame of this connection.
        """
        number = self.number
        pieces = [publish, _FRAME.pack(2, number, len(header)), header]
        size = len(body)
        part_max = self.frame_max - 8
        if len(header) > part_max:
            raise LinkError(
                f"the properties of a message have {len(header)} octets, "
                f"and a frame of the destination at most {part_max}"
            )
        if size == 0:
            pieces.append(_END)
        elif size <= part_max:
            pieces += (_END + _FRAME.pack(3, number, size), body, _END)
        else:
            pieces.append(_END)
            view = memoryview(body)
            for at in range(0, size, part_max):
                part = bytes(view[at : at + part_max])
                pieces += (_FRAME.pack(3, number, len(part)), part, _END)
        return pieces

    def write_publishes(self, pieces: list[bytes], count: int) -> None:
        """Write what `content_frames` has returned of `count` publishes."""
        if self.confirms is not None:
            self.confirms.published += count
        self._connection.write(b"".join(pieces))

    async def drained(self) -> None:
        """Wait until the socket takes more and the broker lets this connection publish.

        Raises:
            LinkClosed: The channel or its connection has ended.
        """
        self.check_open()
        await self._connection.drained()
        self.check_open()

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Settle a delivery, or all up to it."""
        self._connection.write(method_frame(self.number, BasicAck(tag, multiple)))

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Give a delivery back to its queue, or refuse it."""
        self._connection.write(method_frame(self.number, BasicNack(tag, multiple, requeue)))

    # Waiting

    @property
    def blocked_reason(self) -> str:
        """Why the broker lets its connection publish nothing; empty if it does."""
        return self._connection.blocked_reason

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._error is None

    def check_open(self) -> None:
        """Do nothing if it can be used.

        Raises:
            LinkClosed: It has ended.
        """
        if self._error is not None:
            raise self._error

    async def activity(self) -> None:
        """Wait for the next read that concerns this channel, or for its end."""
        self._activity.clear()
        if self._error is None:
            await self._activity.wait()

    def share_activity(self, event: asyncio.Event) -> None:
        """Let an event of several channels tell of reads and of the end, instead of its own."""
        self._activity.set()
        self._activity = event

    def resume_reading(self) -> None:
        """Let the connection be read; a consumer calls it."""
        self._connection.resume_reading()

    # What arrives; the connection calls these

    def take(self, event: Event) -> None:
        """Handle a frame.

        Raises:
            AmqpError: It may not come here, or is malformed.
        """
        kind = type(event)
        if kind is ContentBody:
            self._take_body(event.payload)  # type: ignore[union-attr]
        elif kind is ContentHeader:
            self._take_header(event.payload)  # type: ignore[union-attr]
        elif self._method:
            raise _unexpected("a frame in the middle of a message")
        elif kind is MethodFrame:
            payload: bytes = event.payload  # type: ignore[union-attr]
            identity = payload[:4]
            if identity in (_DELIVER, _RETURN):
                self._method = payload
            else:
                self._take_method(payload)
        elif isinstance(event, AckRun):
            ranges = event.ranges
            for at in range(0, len(ranges), 2):
                self._settle(ranges[at], ranges[at + 1], is_nack=False)
        else:
            raise _unexpected("a frame that no broker sends")

    def end_of_read(self) -> bool:
        """Wake the waiting tasks; return whether the connection should not be read for now."""
        if self._is_settled:
            self._is_settled = False
            if self.on_settled is not None:
                self.on_settled()
        self._activity.set()
        return any(each.is_full for each in self._deliveries.values())

    def end(self, error: LinkClosed) -> None:
        """Fail everything that waits, and what is asked from now on."""
        if self._error is None:
            self._error = error
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(self._error)
        self._activity.set()

    def _take_method(self, payload: bytes) -> None:
        method = decode_method(payload)
        if isinstance(method, BasicNack):
            self._settle(
                0 if method.multiple else method.delivery_tag, method.delivery_tag, is_nack=True
            )
        elif isinstance(method, BasicAck):
            self._settle(
                0 if method.multiple else method.delivery_tag, method.delivery_tag, is_nack=False
            )
        elif isinstance(method, BasicCancel):
            tag = method.consumer_tag
            self.end(ConsumerCancelled(0, f"the broker has cancelled the consumer '{tag}'"))
        elif isinstance(method, ChannelFlow):
            # Brokers ask this of publishers in other dialects; the socket slows us down anyway.
            self._connection.write(method_frame(self.number, ChannelFlowOk(active=method.active)))
        elif isinstance(method, ChannelClose):
            self._connection.write(method_frame(self.number, ChannelCloseOk()))
            self.end(LinkClosed(method.reply_code, method.reply_text))
            self._connection.forget(self.number)
        elif self._reply is not None and not self._reply.done():
            self._reply.set_result(method)
        else:
            raise _unexpected(f"{method.name}, which answers nothing")

    def _settle(self, first: int, last: int, *, is_nack: bool) -> None:
        confirms = self.confirms
        if confirms is None or not confirms.settle(first, last, is_nack=is_nack):
            raise _unexpected(f"a confirm of publish {last}, which was not published")
        self._is_settled = True

    def _take_header(self, payload: bytes) -> None:
        if not self._method or self._header:
            raise _unexpected("a content header without a message")
        if len(payload) < _HEADER_BYTES_MIN:
            raise _unexpected("a content header that is cut short")
        size: int = _SIZE.unpack_from(payload, _SIZE_AT)[0]
        if size > BODY_BYTES_MAX:
            raise LinkClosed(0, f"a message has {size} bytes, at most {BODY_BYTES_MAX} are taken")
        self._header = payload
        self._missing = size
        if size == 0:
            self._complete(b"")

    def _take_body(self, payload: bytes) -> None:
        if not self._header or len(payload) > self._missing:
            raise _unexpected("a part of a body that does not belong to a message")
        self._missing -= len(payload)
        if self._missing:
            self._parts.append(payload)
        elif self._parts:
            self._parts.append(payload)
            body = b"".join(self._parts)
            self._parts = []
            self._complete(body)
        else:
            self._complete(payload)

    def _complete(self, body: bytes) -> None:
        method, header = self._method, self._header
        self._method = self._header = b""
        if method[:4] == _RETURN:
            returned = BasicReturn.decode(method)
            if self.on_returned is not None:
                route = method[7 + method[6] :]
                self.on_returned(Returned(returned, route, header, body))
            return
        tag_end = 5 + method[4] if len(method) > 4 else 5
        if len(method) < tag_end + _TAG.size + 2:
            raise _unexpected("basic.deliver that is cut short")
        tag, flags = _TAG.unpack_from(method, tag_end)
        deliveries = self._deliveries.get(method[5:tag_end])
        if deliveries is None:
            if self._is_closing:
                return
            raise _unexpected("a delivery for no consumer")
        deliveries.put(Delivery(tag, bool(flags & 1), method[tag_end + _TAG.size :], header, body))


def publish_frame(
    number: int, exchange: str, routing_key: str, *, is_mandatory: bool = True
) -> bytes:
    """Return the frame of a `basic.publish`.

    Args:
        number: Channel number.
        exchange: Name of the exchange.
        routing_key: Routing key.
        is_mandatory: Whether the broker returns the message if no queue gets it.
    """
    return method_frame(
        number,
        BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=is_mandatory),
    )


def route_names(route: bytes) -> tuple[str, str]:
    """Return the exchange and the routing key of a route.

    Raises:
        AmqpError: The octets are no route.
    """
    exchange, at = decode_shortstr(route, 0)
    return exchange, decode_shortstr(route, at)[0]


def _unexpected(what: str) -> AmqpError:
    return UnexpectedFrame(f"the peer sent {what}")
