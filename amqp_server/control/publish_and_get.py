"""The commands `messages.upload`, `messages.publish` and `messages.get`.

They do what a client of AMQP does with a channel of its own: publish a message and wait for its
confirm; take messages, then acknowledge, requeue or reject them.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections import deque
from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.control.body_uploads import BodyUploads
from amqp_server.control.command_channel import command_channel, refused
from amqp_server.control.field_tables import checked_name
from amqp_server.control.json_properties import properties_from_json, properties_to_json
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command, when_permitted
from amqp_server.operations.getting import get_message
from amqp_server.protocol.content_assembly import ContentAssembly
from amqp_server.protocol.large_delivery import LargeMessage
from amqp_server.protocol.methods import BasicGet, BasicPublish
from appendlog.layout.message import decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.control.command_channel import CommandChannel, Got
    from amqp_server.control.registry import ReportProgress
    from amqp_server.upkeep.alarms import Alarms

GET_MESSAGES_MAX: Final = 10_000
"""Messages of one `messages.get`."""
GET_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of bodies that one `messages.get` answers: it ends after the message that reaches them."""
REPORT_BYTES: Final = 192 * 1024
"""Bytes of bodies in one progress report; a multiple of 3, so that parts of base64 fit together."""
_INLINE_BYTES: Final = 4 * 1024
"""Properties of more bytes are decoded in a worker."""

ACK_MODES: Final = {
    "ack_requeue_false": Outcome.ACKNOWLEDGED,
    "ack_requeue_true": Outcome.REQUEUED,
    "reject_requeue_false": Outcome.REJECTED,
    "reject_requeue_true": Outcome.REQUEUED,
}
"""What becomes of messages that were taken."""


async def upload(uploads: BodyUploads, upload: str, body: str) -> str:
    """Keep a part of a body that is too long for one request; return the name of the body.

    Args:
        uploads: Bodies that are not complete yet.
        upload: Name of the body; empty: a new one.
        body: Part in base64.

    Raises:
        ControlError: An argument is not valid, or incomplete bodies hold as much as allowed.
    """
    return uploads.add(upload, _octets(body))


async def publish(
    broker: Broker,
    access: AccessControl,
    alarms: Alarms,
    uploads: BodyUploads,
    vhost: str,
    exchange: str,
    routing_key: str,
    properties: dict[str, Any],
    body: str,
    upload: str = "",
) -> dict[str, bool]:
    """Publish a message; return when it is confirmed.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        alarms: Alarms for low memory and disk space; publishers wait while one is on.
        uploads: Bodies that are not complete yet.
        vhost: Name of the virtual host.
        exchange: Exchange to publish to.
        routing_key: Routing key.
        properties: Properties as in RabbitMQ's HTTP API.
        body: Body in base64, or its last part.
        upload: Name of the body whose other parts came before; empty: `body` is all of it.

    Returns:
        Whether a queue has got it, and whether the server has taken it: a full queue may refuse.

    Raises:
        ControlError: An argument is not valid, AMQP refuses, or an alarm is on.
    """
    parts = uploads.take(upload) if upload else []
    parts.append(_octets(body))
    if alarms.low:
        reason = f"no message can be published now: {alarms.reason}"
        raise ControlError(ErrorKind.LIMIT_REACHED, reason)
    place = (vhost, exchange, routing_key)
    # The body is taken once, but the permissions may have to be asked for several times.
    return await when_permitted(partial(_publish, broker, access, place, properties, parts))


async def _publish(
    broker: Broker,
    access: AccessControl,
    place: tuple[str, str, str],
    properties: dict[str, Any],
    parts: list[bytes],
) -> dict[str, bool]:
    """Publish a message; it has changed nothing when it raises AnswerAwaited."""
    vhost, exchange, routing_key = place
    channel = command_channel("messages.publish", broker, access, vhost)
    method = BasicPublish(
        exchange=checked_name("exchange", exchange),
        routing_key=checked_name("routing_key", routing_key),
        mandatory=True,
    )
    size = sum(map(len, parts))
    header = properties_from_json(properties).encode()
    with refused():
        payload = method.encode()
        channel.publishing.check_target(payload)
        content = ContentAssembly(
            method, payload, broker.config.max_message_bytes, broker.assembly_budget
        )
        try:
            content.take_header(pack(">HHQ", *_BASIC, size) + header)
            time_slice = channel.broker.turn.new_slice()
            for part in filter(None, parts):
                content.take_body(part)
                await time_slice.yield_if_due()
        finally:
            content.release()
        run = content.as_run(channel.number)

        def steps() -> Iterator[None]:
            try:
                yield from channel.publishing.select_confirms()
                yield from (
                    channel.publishing.publish_run(
                        channel, payload, run.messages, run.checked_flags, run.shared_flags
                    )
                    or ()
                )
            finally:
                # Also if nobody waits for the confirm any more; it counts all the same.
                deque(channel.counters.end(), maxlen=0)

        await channel.take(steps())
    is_taken = await channel.answers.confirmed
    return {"routed": not channel.answers.is_returned, "confirmed": is_taken}


_BASIC: Final = (60, 0)
"""Class and weight in a content header."""


def _octets(body: str) -> bytes:
    try:
        return b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ControlError(ErrorKind.INVALID_ARGUMENT, "'body' is not base64") from None


async def get(
    broker: Broker,
    access: AccessControl,
    report: ReportProgress,
    vhost: str,
    queue: str,
    count: int,
    ack_mode: str,
    body_bytes: int,
) -> dict[str, int]:
    """Take messages from a queue, and send them in progress reports.

    What is acknowledged is settled when the client has read it; so it is not lost with the client.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        report: Sends the client some messages.
        vhost: Name of the virtual host.
        queue: Name of the queue.
        count: Most messages; -1: as many as one answer may have.
        ack_mode: What becomes of them, one of `ACK_MODES`.
        body_bytes: Bytes of each body to send; -1 for all.

    Raises:
        ControlError: An argument is not valid, or AMQP refuses.
    """
    outcome = ACK_MODES.get(ack_mode)
    if outcome is None:
        reason = f"ack_mode is '{ack_mode}', must be one of {', '.join(ACK_MODES)}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if count < -1 or body_bytes < -1:
        reason = "count and body_bytes must be -1 or more"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    channel = command_channel("messages.get", broker, access, vhost)
    method = BasicGet(queue=checked_name("queue", queue))
    wanted = GET_MESSAGES_MAX if count == -1 else min(count, GET_MESSAGES_MAX)
    rows: list[tuple[dict[str, Any], memoryview]] = []
    is_read = False
    try:
        await _take(channel, method, wanted, body_bytes, rows)
        if outcome is not Outcome.ACKNOWLEDGED:
            await _settle(channel, outcome)
        await _send(report, rows)
        is_read = True
    finally:
        await _settle(channel, outcome if is_read else Outcome.REQUEUED)
        channel.is_closed = True
        deque(channel.counters.end(), maxlen=0)
    return {"messages": len(rows)}


async def _take(
    channel: CommandChannel,
    method: BasicGet,
    wanted: int,
    body_bytes: int,
    rows: list[tuple[dict[str, Any], memoryview]],
) -> None:
    """Take messages until there are enough, or none is left."""
    held_bytes = 0
    time_slice = channel.broker.turn.new_slice()
    while len(rows) < wanted and held_bytes < GET_BYTES_MAX:
        channel.got = None
        await channel.wait(partial(get_message, channel, method))
        if channel.got is None:
            # The rights were checked and the queue is there: it is empty.
            return
        row, body = await _row(channel.got)
        if body_bytes >= 0:
            body = body[:body_bytes]
        rows.append((row, body))
        held_bytes += len(body)
        await time_slice.yield_if_due()


async def _row(got: Got) -> tuple[dict[str, Any], memoryview]:
    """Return a message as RabbitMQ's HTTP API has it, and its body."""
    if isinstance(got.message, LargeMessage):
        front, body = got.message.front, got.message.body
    else:
        (front,) = messages_of(got.message)
        body = memoryview(front)[len(front) - len(decode_message(front).body) :]
    view = decode_message(front)
    if len(view.properties) > _INLINE_BYTES:
        properties = await asyncio.to_thread(properties_to_json, view.properties)
    else:
        properties = properties_to_json(view.properties)
    row = {
        "payload_bytes": len(body),
        "redelivered": got.redelivered,
        "exchange": view.exchange.decode(errors="replace"),
        "routing_key": view.routing_key.decode(errors="replace"),
        "message_count": got.left,
        "properties": properties,
    }
    return row, body


async def _send(report: ReportProgress, rows: list[tuple[dict[str, Any], memoryview]]) -> None:
    """Send messages, each body in as many parts as it needs."""
    shown: list[dict[str, Any]] = []
    held_bytes = 0
    for row, body in rows:
        shown.append({**row, "body": _base64(body[:REPORT_BYTES])})
        held_bytes += min(len(body), REPORT_BYTES) + 512
        if held_bytes >= REPORT_BYTES:
            await report({"messages": shown})
            await asyncio.sleep(0)
            shown, held_bytes = [], 0
            for at in range(REPORT_BYTES, len(body), REPORT_BYTES):
                await report({"body": _base64(body[at : at + REPORT_BYTES])})
                await asyncio.sleep(0)
    if shown:
        await report({"messages": shown})


def _base64(octets: memoryview) -> str:
    return b64encode(octets).decode("ascii")


async def _settle(channel: CommandChannel, outcome: Outcome) -> None:
    """Do with the taken messages what the client wants; nothing if that is done."""
    if not channel.unacked.count:
        return
    if outcome is Outcome.REQUEUED:
        await channel.take(channel.requeue_unacked())
        return
    while runs := channel.unacked.take_some(None):
        if (steps := channel.resolve(outcome, runs)) is not None:
            await channel.take(steps)


def message_commands(broker: Broker, access: AccessControl, alarms: Alarms) -> tuple[Command, ...]:
    """Return the commands `messages.*` of a server with these parts."""
    uploads = BodyUploads()
    return (
        Command("messages.upload", partial(upload, uploads), {"upload": str, "body": str}),
        Command(
            "messages.publish",
            partial(publish, broker, access, alarms, uploads),
            {
                "vhost": str,
                "exchange": str,
                "routing_key": str,
                "properties": dict,
                "body": str,
            },
            {"upload": str},
            audited=Audited("message.published", name="exchange", details=("routing_key",)),
        ),
        Command(
            "messages.get",
            partial(get, broker, access),
            {"vhost": str, "queue": str, "count": int, "ack_mode": str, "body_bytes": int},
            reports=True,
            audited=Audited("queue.got", name="queue", details=("count", "ack_mode")),
        ),
    )
