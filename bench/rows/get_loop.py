"""basic.get in a loop: one message asked for, one answer awaited."""

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
from bench.consumer import CONSUME_CHANNEL
from bench.errors import BrokenRhythmError, UnexpectedFrameError
from bench.message_body import FIELDS
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.flow import clean_queues
from bench.rows.row import Row
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.worker import StartLine
from bench.workers import Workers

NO_ACK: Final = Row(
    "get", "basic.get in a loop, one at a time, no acks, 128 B", "gets/s", bar=10_000, ratio_bar=1.5
)
WITH_ACK: Final = Row(
    "get-ack",
    "basic.get in a loop, each acked in the write of the next",
    "gets/s",
    bar=10_000,
    ratio_bar=1.5,
)

_QUEUE: Final = "bench"
_BODY_BYTES: Final = 128
_SECONDS_MAX: Final = 2.0
_GETS_PER_SECOND_MAX: Final = 40_000
"""More than one client gets, so that the queue is not empty before the time is over."""
_GET_OK: Final = (BASIC, 71)
_TAG: Final = struct.Struct(">Q")
_TAG_POSITION: Final = FRAME_OVERHEAD_BYTES - 1 + 4
_FIELDS: Final = struct.Struct(FIELDS)


@dataclass(frozen=True, slots=True)
class GetOrder:
    """What the client is to do.

    Attributes:
        url: The broker.
        queue: A queue with messages of one publisher, not one of them taken.
        block_messages: Messages in a block of the publisher.
        seconds: How long.
        is_acknowledged: Whether to acknowledge each message.
    """

    url: BrokerUrl
    queue: str
    block_messages: int
    seconds: float
    is_acknowledged: bool


@dataclass(frozen=True, slots=True)
class GetResult:
    """What the client got.

    Attributes:
        received: Messages, each checked to be the next.
        elapsed_seconds: First get to last answer.
        cpu_seconds: CPU that the client used.
    """

    received: int
    elapsed_seconds: float
    cpu_seconds: float


class GetClient:
    """Gets one message after the other; all answers have the size of the first.

    Attributes:
        received: Messages so far.
    """

    def __init__(self, connection: Connection, order: GetOrder) -> None:
        """Send nothing yet.

        Args:
            connection: An open connection.
            order: What to do.
        """
        self.received = 0
        self._connection = connection
        self._order = order
        flags = b"\0" if order.is_acknowledged else b"\1"
        arguments = b"\0\0" + short_string(order.queue) + flags
        self._get = method_frame(connection.channel, BASIC, 70, arguments)
        self._answer_bytes = 0

    def run(self) -> None:
        """Get until the time is over; the last message is acknowledged too.

        Raises:
            BrokenRhythmError: A message is not the next one.
            BenchError: Something else came, because the queue is empty or the channel was closed;
                or nothing.
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
        self._answer_bytes = sum(len(each.payload) + FRAME_OVERHEAD_BYTES for each in frames)
        return True

    def _check(self, answer: bytes) -> None:
        (tag,) = _TAG.unpack_from(answer, _TAG_POSITION)
        body_position = len(answer) - 1 - _BODY_BYTES
        _, index, block, _ = _FIELDS.unpack_from(answer, body_position)
        number = block * self._order.block_messages + index
        if tag != self.received + 1 or number != self.received:
            raise BrokenRhythmError(self.received, f"delivery tag {tag}, message {number}")


def get_messages(start_line: StartLine, order: GetOrder) -> GetResult:
    """Carry out an order, in a process of its own.

    Raises:
        As `GetClient.run`.
    """
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


def measure_gets(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    seconds = min(effort.seconds, _SECONDS_MAX)
    values: dict[str, float] = {}
    lost = 0
    others_cores = None
    for row in (NO_ACK, WITH_ACK):
        result, row_lost, others_cores = _run(running, seconds, is_acknowledged=row is WITH_ACK)
        values[row.key] = result.received / result.elapsed_seconds
        lost += row_lost
    return Findings(values, lost, others_cores)


def _run(
    broker: RunningBroker, seconds: float, *, is_acknowledged: bool
) -> tuple[GetResult, int, float | None]:
    probe = ServerProbe(broker.pid)
    with clean_queues(broker.url, [_QUEUE]) as filling, Workers(probe.sample) as workers:
        block = PublishBlock(filling.channel, _QUEUE, body_bytes=_BODY_BYTES)
        blocks = -(-round(seconds * _GETS_PER_SECOND_MAX) // block.block_messages)
        for number in range(blocks):
            filling.send(block.encode(number, 0))
        filling.count_ready(_QUEUE)  # its answer comes when all publishes are handled
        order = GetOrder(broker.url, _QUEUE, block.block_messages, seconds, is_acknowledged)
        client = workers.start(get_messages, order)
        probe.start()
        client.go()
        result = workers.wait_for(client)
        others_cores = probe.others_cores(result.cpu_seconds)
        left = filling.count_ready(_QUEUE)
        return result, abs(blocks * block.block_messages - result.received - left), others_cores


GETS: Final = Experiment("gets", (NO_ACK, WITH_ACK), measure_gets, seconds=6, rabbitmq_seconds=8)
