"""Handing records to a function, one batch after the other: retries, failures, stopping.

At least once: a batch is acked when the handler has returned, so a crash in between brings it
again. A batch that fails more often than it may is put to `on_error`, which decides.
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

logger: Final = logging.getLogger(__name__)

POLL_SECONDS_MAX: Final = 3600.0


class OnError(Enum):
    """What becomes of records whose handler has failed for the last time."""

    SKIP = "skip"
    """They are done with."""
    STOP = "stop"
    """They come again in the next run; this one ends."""


Handler = Callable[[ConsumedBatch], object]
ErrorDecision = Callable[[ConsumedBatch, Exception], OnError]


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """How batches are handed over.

    Attributes:
        batch_size: Records in a batch at most, >= 1.
        poll_interval_seconds: Between two looks for new records, while there are none.
        max_retries: How often a batch that failed is handed over again, >= 0.
        retry_delay_seconds: Before each of these.
        auto_ack: Whether a batch is acked when the handler has returned; else the handler does.
        on_error: What becomes of a batch that failed for the last time: one of `OnError`, or a
            function that is told and says so. What it raises ends the run.
        on_batch: Called after each batch that was handled, acked already.
        until_idle: Whether to end when there is nothing to read.
        is_single: Whether the handler gets batches of one record; each is acked, and retried, by
            itself.
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
    """What one run has done.

    Attributes:
        batches: Handled.
        records: In these.
        payload_bytes: Of their messages, with key and headers.
        retries: Times that a batch was handed over again.
        skipped_records: Done with though their handler failed.
        error: What ended the run, if a handler did.
        failed_batch: What it failed with then; not acked.
    """

    batches: int = 0
    records: int = 0
    payload_bytes: int = 0
    retries: int = 0
    skipped_records: int = 0
    error: Exception | None = None
    failed_batch: ConsumedBatch | None = None


def dead_letters_to(log: LogWriter) -> ErrorDecision:
    """Return an `on_error` that appends what failed to a log, durably, and skips it.

    The records keep key, headers and payload; `x-error` says what the last error was, `x-log` and
    `x-offset` where the record was. The log must be one that this process writes.
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
    """One run over the logs of a consumer.

    Args:
        consumer: Belongs to the run until it has ended.
        handler: Called with each batch, in the thread of `run`; returning means done, raising an
            Exception means failed. Anything else that it raises ends the run at once.
        options: How.
    """

    def __init__(self, consumer: Consumer, handler: Handler, options: ProcessOptions) -> None:
        self._consumer = consumer
        self._handler = handler
        self._options = options
        self._statistics = ProcessStatistics()

    def run(self) -> ProcessStatistics:
        """Hand batches over until the consumer is stopped, is idle, or a failure ends it.

        What was acked is on the disk when this returns.

        Raises:
            GroupLockedError: As `Consumer.poll`, and so on.
        """
        options, consumer = self._options, self._consumer
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
            consumer.take_back_offer()
            raise
        finally:
            consumer.sync()
        return self._statistics

    def _hand_over(self, batch: ConsumedBatch) -> bool:
        """Return whether the run goes on; what was not done with comes again in the next one."""
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
        """Return whether the batch is done with."""
        options, statistics = self._options, self._statistics
        for attempt in range(options.max_retries + 1):
            if attempt:
                statistics.retries += 1
                if self._consumer.pause(options.retry_delay_seconds):
                    return False
            try:
                self._handler(batch)
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is for `on_error`
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
