"""basic.get in a loop: ask for one message, wait for its answer, ask for the next."""

import struct
import time
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import (
    BASIC,
    FRAME_OVERHEAD_BYTES,
    method_frame,
    parse_frames,
    short_string,
)
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import BrokenRhythmError, UnexpectedFrameError
from bench.message_body import FIELDS
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.run import empty_queues
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row
from bench.worker import StartLine
from bench.workers import run_alone
from bench.workloads import QUEUE

_BODY_BYTES: Final = 128
_SECONDS_MAX: Final = 2.0
_GETS_PER_SECOND_MAX: Final = 40_000
"""Above the rate of one client, so that the queue is not empty before the time is over."""
_GET_OK: Final = (BASIC, 71)
_TAG: Final = struct.Struct(">Q")
_TAG_POSITION: Final = FRAME_OVERHEAD_BYTES - 1 + 4
_FIELDS: Final = struct.Struct(FIELDS)


@dataclass(frozen=True, slots=True)
class GetOrder:
    """Instructions for the client.

    Attributes:
        url: The broker.
        queue: Name of a queue with messages of one publisher, all of them ready.
        block_messages: Messages in a block of the publisher.
        seconds: How long to get messages.
        is_acknowledged: Whether to acknowledge each message.
    """

    url: BrokerUrl
    queue: str
    block_messages: int
    seconds: float
    is_acknowledged: bool


@dataclass(frozen=True, slots=True)
class GetResult:
    """Messages of the client.

    Attributes:
        received: Messages, each checked to be the next one.
        elapsed_seconds: Time from the first get to the last answer.
        cpu_seconds: CPU that the client used.
    """

    received: int
    elapsed_seconds: float
    cpu_seconds: float


class GetClient:
    """Gets one message after the other; all answers have the size of the first.

    Args:
        connection: An open connection.
        order: What to get.

    Attributes:
        received: Messages so far.
    """

    def __init__(self, connection: Connection, order: GetOrder) -> None:
        self.received = 0
        self._connection = connection
        self._order = order
        flags = b"\0" if order.is_acknowledged else b"\1"
        arguments = b"\0\0" + short_string(order.queue) + flags
        self._get = method_frame(connection.channel, BASIC, 70, arguments)
        self._answer_bytes = 0

    def run(self) -> None:
        """Get messages until the time is over; acknowledge the last message too.

        Raises:
            BrokenRhythmError: A message is not the next one.
            BenchError: The queue is empty, the broker closed the channel, or it does not answer.
        """
        connection, order = self._connection, self._order
        end = time.monotonic() + order.seconds
        ack = b""
        while time.monotonic() < end:
            connection.send(ack + self._get)
            self._check(self._read_answer())
            self.received += 1
            if order.is_acknowledged:
                ack = self._encode_ack()
        connection.send(ack)

    def _encode_ack(self) -> bytes:
        return method_frame(self._connection.channel, BASIC, 80, _TAG.pack(self.received) + b"\0")

    def _read_answer(self) -> bytes:
        answer = self._connection.receive()
        while not self._is_whole(answer):
            answer += self._connection.receive()
        return answer

    def _is_whole(self, answer: bytes) -> bool:
        if len(answer) == self._answer_bytes:
            return True
        frames = list(parse_frames(answer))
        if frames and frames[0].method_id != _GET_OK:
            raise UnexpectedFrameError(frames[0].describe(), "basic.get-ok")
        if len(frames) < 3:
            return False
        self._answer_bytes = sum(each.wire_bytes for each in frames)
        return True

    def _check(self, answer: bytes) -> None:
        (tag,) = _TAG.unpack_from(answer, _TAG_POSITION)
        body_position = len(answer) - 1 - _BODY_BYTES
        _, index, block, _ = _FIELDS.unpack_from(answer, body_position)
        number = block * self._order.block_messages + index
        if tag != self.received + 1 or number != self.received:
            raise BrokenRhythmError(self.received, f"delivery tag {tag}, message {number}")


def get_messages(start_line: StartLine, order: GetOrder) -> GetResult:
    """Get messages in a process of its own; raises as `GetClient.run`."""
    with Connection(order.url, CONSUME_CHANNEL) as connection:
        client = GetClient(connection, order)
        start_line.wait()
        start = time.monotonic()
        client.run()
        elapsed_seconds = time.monotonic() - start
        cpu_seconds = start_line.cpu_seconds()
        connection.close_channel()
        connection.close()
    return GetResult(client.received, elapsed_seconds, cpu_seconds)


def _measure(broker: StartableBroker, effort: Effort) -> Findings:
    running = broker.running()
    seconds = min(effort.seconds, _SECONDS_MAX)
    values: dict[str, float] = {}
    lost = 0
    others_cores = None
    for key, is_acknowledged in (("get", False), ("get-ack", True)):
        result, row_lost, others_cores = _run(running, seconds, is_acknowledged=is_acknowledged)
        values[key] = result.received / result.elapsed_seconds
        lost += row_lost
    return Findings(values, lost, others_cores)


def _run(
    broker: RunningBroker, seconds: float, *, is_acknowledged: bool
) -> tuple[GetResult, int, float | None]:
    probe = ServerProbe(broker.pid)
    with empty_queues(broker.url, [QUEUE]) as filling:
        block = PublishBlock(filling.channel, QUEUE, body_bytes=_BODY_BYTES)
        blocks = -(-round(seconds * _GETS_PER_SECOND_MAX) // block.block_messages)
        for number in range(blocks):
            filling.send(block.encode(number, 0))
        filling.count_ready(QUEUE)  # the broker answers after it has handled all publishes
        order = GetOrder(broker.url, QUEUE, block.block_messages, seconds, is_acknowledged)
        result = run_alone(probe, get_messages, order)
        others_cores = probe.others_cores(result.cpu_seconds)
        left = filling.count_ready(QUEUE)
        return result, abs(blocks * block.block_messages - result.received - left), others_cores


EXPERIMENTS: Final = (
    Experiment(
        "gets",
        (
            Row(
                "get",
                "basic.get in a loop, one at a time, no acks, alike messages of 128 B",
                "gets/s",
                bar=10_000,
                ratio_bar=1.5,
            ),
            Row(
                "get-ack",
                "basic.get in a loop, each acked in the write of the next, alike messages",
                "gets/s",
                bar=10_000,
                ratio_bar=1.5,
            ),
        ),
        _measure,
        seconds=6,
        rabbitmq_seconds=8,
    ),
)
