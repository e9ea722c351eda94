"""Processing of records by a function, batch after batch: retries, failures, stopping.

At least once: a batch is acked after its handler has returned, so after a crash in between it is
delivered again. If a batch fails more often than allowed, `on_error` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from appendlog import LogWriter, Record
from offsets.consuming.batch import ConsumedBatch

if TYPE_CHECKING:
    from offsets.consuming.consumer import Consumer

logger: Final = logging.getLogger("offsets.consuming.processing")

POLL_SECONDS_MAX: Final = 3600.0


class OnError(Enum):
    """Decision about records whose handler has failed for the last time."""

    SKIP = "skip"
    """Ack the records, and continue."""
    STOP = "stop"
    """End the run; the next one gets the records again."""


Handler = Callable[[ConsumedBatch], object]
ErrorDecision = Callable[[ConsumedBatch, Exception], OnError]


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options of a run.

    Attributes:
        batch_size: Maximum number of records in a batch, >= 1.
        poll_interval_seconds: Interval of looks for new records while there are none, 0 to 3600.
        max_retries: Maximum number of retries of a failed batch, >= 0.
        retry_delay_seconds: Delay before each retry, >= 0.
        auto_ack: Whether the run acks a batch when its handler returns; otherwise the handler acks.
        on_error: Decision about a batch that failed for the last time: a member of `OnError`, or a
            function that gets the batch and the error and returns one. Its exceptions end the run.
        on_batch: Called after each processed batch, which is acked already.
        until_idle: Whether to end the run when there is nothing to read.
        is_single: Whether the handler gets batches of one record, each acked and retried
            separately.
    """

    batch_size: int = 1_000
    poll_interval_seconds: float = 0.05
    max_retries: int = 3
    retry_delay_seconds: float = 0.1
    auto_ack: bool = True
    on_error: OnError | ErrorDecision = OnError.STOP
    on_batch: Callable[[ConsumedBatch], object] | None = None
    until_idle: bool = False
    is_single: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size} is not positive")
        if not 0 <= self.poll_interval_seconds <= POLL_SECONDS_MAX:
            raise ValueError(
                f"poll_interval_seconds {self.poll_interval_seconds} is not in 0 to 3600"
            )
        if self.max_retries < 0:
            raise ValueError(f"max_retries {self.max_retries} is negative")
        if self.retry_delay_seconds < 0:
            raise ValueError(f"retry_delay_seconds {self.retry_delay_seconds} is negative")
        if not (isinstance(self.on_error, OnError) or callable(self.on_error)):
            raise TypeError(f"on_error {self.on_error!r} is neither an OnError nor a function")


@dataclass(slots=True)
class ProcessStatistics:
    """Result of a run.

    Attributes:
        batches: Number of processed batches.
        records: Number of records in them.
        payload_bytes: Size of their messages, with key and headers.
        retries: Number of retries.
        skipped_records: Number of records acked although their handler failed.
        error: Exception of a handler that ended the run, if one did.
        failed_batch: Batch of that exception; not acked.
    """

    batches: int = 0
    records: int = 0
    payload_bytes: int = 0
    retries: int = 0
    skipped_records: int = 0
    error: Exception | None = None
    failed_batch: ConsumedBatch | None = None


def dead_letters_to(log: LogWriter) -> ErrorDecision:
    """Return an `on_error` that appends failed records to a log, durably, and then skips them.

    The records keep key, headers and payload; the header `x-error` holds the last error, `x-log`
    and `x-offset` the place of the record. This process must be the writer of the log.
    """

    def decide(batch: ConsumedBatch, error: Exception) -> OnError:
        reason = f"{type(error).__name__}: {error}"
        log.append_records(
            [
                Record(
                    each.payload,
                    each.key,
                    {
                        **(each.headers or {}),
                        "x-error": reason,
                        "x-log": batch.log,
                        "x-offset": each.offset,
                    },
                )
                for each in batch
            ]
        )
        log.sync()
        return OnError.SKIP

    return decide


class Process:
    """Run over the logs of a consumer.

    Args:
        consumer: Consumer, which the run owns until it ends.
        handler: Called with each batch, in the thread of `run`. A return means success, an
            Exception means failure. Any other exception ends the run at once.
        options: Options of the run.
    """

    def __init__(self, consumer: Consumer, handler: Handler, options: ProcessOptions) -> None:
        self._consumer = consumer
        self._handler = handler
        self._options = options
        self._statistics = ProcessStatistics()

    def run(self) -> ProcessStatistics:
        """Process batches until the consumer is stopped or idle, or a failure ends the run.

        All acks are on the disk when this returns.

        Raises:
            GroupLockedError: As for `Consumer.poll`, like its other errors.
        """
        options = self._options
        consumer = self._consumer
        try:
            while not consumer.is_stopping:
                batch = consumer.offer(options.batch_size)
                if batch is None:
                    if options.until_idle:
                        break
                    consumer.pause(options.poll_interval_seconds)
                    continue
                goes_on = self._hand_over(batch)
                consumer.accept()
                if not goes_on:
                    break
        except BaseException:
            consumer.rewind_offer()
            raise
        finally:
            consumer.sync()
        return self._statistics

    def _hand_over(self, batch: ConsumedBatch) -> bool:
        """Return whether the run continues; the next run gets unacked records again."""
        units = self._units(batch)
        done = 0
        try:
            while done < len(units) and self._handle(units[done]):
                done += 1
                if self._consumer.is_stopping:
                    break
        finally:
            if done < len(units):
                self._consumer.requeue(units[done])
        return done == len(units)

    def _units(self, batch: ConsumedBatch) -> Sequence[ConsumedBatch]:
        return batch.singles() if self._options.is_single else [batch]

    def _handle(self, batch: ConsumedBatch) -> bool:
        """Return whether the batch is processed or skipped."""
        options = self._options
        statistics = self._statistics
        for attempt in range(options.max_retries + 1):
            if attempt:
                statistics.retries += 1
                if self._consumer.pause(options.retry_delay_seconds):
                    return False
            try:
                self._handler(batch)
            except Exception as error:  # noqa: BLE001 - `on_error` decides about any exception
                failure = error
                logger.info(
                    "handler failed log=%s offset=%d attempt=%d error=%r",
                    batch.log,
                    batch.offsets[0],
                    attempt + 1,
                    error,
                )
            else:
                self._done(batch)
                return True
        return self._stop_at(batch, failure)

    def _done(self, batch: ConsumedBatch) -> None:
        statistics = self._statistics
        if self._options.auto_ack:
            self._consumer.ack_batch(batch)
        statistics.batches += 1
        statistics.records += len(batch)
        statistics.payload_bytes += sum(map(len, batch.messages))
        if self._options.on_batch is not None:
            self._options.on_batch(batch)

    def _stop_at(self, batch: ConsumedBatch, error: Exception) -> bool:
        on_error = self._options.on_error
        decision = on_error if isinstance(on_error, OnError) else on_error(batch, error)
        if decision is OnError.STOP:
            self._statistics.error = error
            self._statistics.failed_batch = batch
            return False
        self._consumer.ack_batch(batch)
        self._statistics.skipped_records += len(batch)
        return True
