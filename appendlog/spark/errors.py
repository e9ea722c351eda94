"""Errors that stop a read, an export or an import: one class for each remedy."""

from collections.abc import Sequence
from pathlib import Path


class AmqplogError(Exception):
    """Base of all errors of the Spark reader; the message is one line and says what to do."""


class StorageNotFoundError(AmqplogError):
    """There is no data directory at the path.

    Attributes:
        path: Path that the user gave.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class QueueNotFoundError(AmqplogError):
    """The virtual host has no durable queue of that name.

    Attributes:
        vhost: Virtual host.
        queue: Name that the user asked for.
        near: Names of existing queues, the most similar first.
    """

    def __init__(self, vhost: str, queue: str, near: Sequence[str], advice: str) -> None:
        super().__init__(f"no durable queue {queue!r} in virtual host {vhost!r}: {advice}")
        self.vhost = vhost
        self.queue = queue
        self.near = near


class NoQueueMatchesError(AmqplogError):
    """No durable queue matches a pattern at this moment.

    Attributes:
        vhost: Virtual host.
        pattern: Regular expression that the user gave.
    """

    def __init__(self, vhost: str, pattern: str, some: Sequence[str], count: int) -> None:
        advice = f"it has {count} durable queues"
        if some:
            advice += f", such as {', '.join(some)}"
        super().__init__(
            f"no queue of virtual host {vhost!r} matches {pattern!r} as a whole: {advice}"
        )
        self.vhost = vhost
        self.pattern = pattern


class SubscriptionError(AmqplogError):
    """Names, a pattern or an assignment of queues that cannot be understood."""


class BoundError(AmqplogError):
    """A start or an end of a range that cannot be understood."""


class OptionError(AmqplogError):
    """An option of a reader is unknown, or has a value that is not allowed.

    Attributes:
        option: Name of the option.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.option = option


class ColumnError(AmqplogError):
    """The user asked for columns that do not exist, or that have another type."""


class ReadLossError(AmqplogError):
    """Retention removed offsets that were planned to be read.

    Attributes:
        queue: Name of the queue.
        start: First offset that is gone.
        end: End of these offsets, exclusive.
    """

    def __init__(self, queue: str, start: int, end: int) -> None:
        super().__init__(
            f"offsets [{start}, {end}) of queue {queue!r} are not in the log any more: retention "
            f"removed them; failOnDataLoss=false reads what is left"
        )
        self.queue = queue
        self.start = start
        self.end = end


class ReadFailedError(AmqplogError):
    """A part of a log could not be read; the message says which."""


class RangeError(AmqplogError):
    """The start and the end that the user asked for make no range of this log."""


class SettlementError(AmqplogError):
    """The user asked for settled messages, and nothing says which messages are settled."""


class DataLossError(AmqplogError):
    """Retention removed offsets that were to be exported.

    Attributes:
        start: First offset that is gone.
        end: First offset after it that the log still has.
    """

    def __init__(self, queue: str, start: int, end: int) -> None:
        super().__init__(
            f"offsets [{start}, {end}) of queue {queue!r} are not in the log any more: "
            f"retention removed them before they were exported; "
            f"--since {end} exports what is left, --allow-data-loss also records the gap"
        )
        self.start = start
        self.end = end


class StreamDataLossError(AmqplogError):
    """A stream cannot continue in a queue without skipping offsets.

    Attributes:
        queue: Name of the queue.
    """

    def __init__(self, queue: str, reason: str, otherwise: str) -> None:
        super().__init__(f"queue {queue!r}: {reason}; failOnDataLoss=false {otherwise}")
        self.queue = queue


class CheckpointError(AmqplogError):
    """The checkpoint of a stream belongs to another source or another data directory."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the checkpoint of the stream is not one of format('amqplog') with these options: "
            f"{reason}; give another checkpointLocation to begin again"
        )


class CorruptLogError(AmqplogError):
    """The log is damaged below its durable end."""


class OutputError(AmqplogError):
    """The output cannot be used: it holds something else, it is damaged, or it is locked."""


class PartitionFieldError(AmqplogError):
    """A field for partitions that cannot be understood, or that has too many values."""


class MasterError(AmqplogError):
    """The value of `--master` is no master of Spark that this job can run on."""


class SparkConfError(AmqplogError):
    """A value of `--spark-conf` is no setting of Spark, or has an option of its own."""


class JavaError(AmqplogError):
    """Java is missing or too old for Spark."""


class SparkFailedError(AmqplogError):
    """Spark did not start, or a task failed for a reason that no other class names."""


class TaskFailedError(AmqplogError, OSError):
    """A task could not read its log or write its files; Spark may try it again."""


class LakeMissingError(AmqplogError):
    """The library of Delta or Iceberg tables is not installed."""

    def __init__(self, library: str) -> None:
        super().__init__(f"the package {library} is missing: pip install 'amqp-server[lake]'")


class StoreError(AmqplogError, OSError):
    """An object store cannot be used: it is not there, it refuses, or it lacks an operation.

    Also an OSError: code that reads files treats it like a failing disk.
    """
