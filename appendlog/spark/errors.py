"""What stops a read, an export or an import: one class per thing that the user does next."""

from collections.abc import Sequence
from pathlib import Path


class AmqplogError(Exception):
    """Base of them all; the message is one line and says what to do."""


class StorageNotFoundError(AmqplogError):
    """There is no data directory at the path.

    Attributes:
        path: What was given.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class QueueNotFoundError(AmqplogError):
    """No durable queue of that name.

    Attributes:
        vhost: Virtual host.
        queue: What was asked for.
        near: Existing names, the most similar first.
    """

    def __init__(self, vhost: str, queue: str, near: Sequence[str], advice: str) -> None:
        super().__init__(f"no durable queue {queue!r} in virtual host {vhost!r}: {advice}")
        self.vhost = vhost
        self.queue = queue
        self.near = near


class NoQueueMatchesError(AmqplogError):
    """No durable queue matches a pattern, now.

    Attributes:
        vhost: Virtual host.
        pattern: What was asked for.
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
    """What should say which queues to read does not."""


class BoundError(AmqplogError):
    """What should say where to begin or to end does not."""


class OptionError(AmqplogError):
    """An option of a reader says nothing that could be done.

    Attributes:
        option: Its name.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.option = option


class ColumnError(AmqplogError):
    """Columns were asked for that there are not, or not so."""


class ReadLossError(AmqplogError):
    """Offsets that were to be read are not in the log any more.

    Attributes:
        queue: Whose.
        start: Inclusive.
        end: Exclusive.
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
    """The offsets asked for make no range of this log."""


class SettlementError(AmqplogError):
    """What is settled in a queue was asked for, and cannot be known."""


class DataLossError(AmqplogError):
    """Offsets that were to be exported are not in the log any more.

    Attributes:
        start: Inclusive.
        end: Exclusive; lower than it would be if everything was there.
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
    """A stream cannot go on in a queue without passing over something.

    Attributes:
        queue: Which queue.
    """

    def __init__(self, queue: str, reason: str, otherwise: str) -> None:
        super().__init__(f"queue {queue!r}: {reason}; failOnDataLoss=false {otherwise}")
        self.queue = queue


class CheckpointError(AmqplogError):
    """The checkpoint of a stream is not of this source, or not of this data directory."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the checkpoint of the stream is not one of format('amqplog') with these options: "
            f"{reason}; give another checkpointLocation to begin anew"
        )


class CorruptLogError(AmqplogError):
    """Damage before the durable end."""


class OutputError(AmqplogError):
    """The output directory cannot be used: what is in it is not this queue's, or it is locked."""


class MasterError(AmqplogError):
    """What was given as Spark's master is none that this job can run on."""


class SparkConfError(AmqplogError):
    """What was given as a setting of Spark is none that can be given."""


class JavaError(AmqplogError):
    """Java is missing or too old for Spark."""


class SparkFailedError(AmqplogError):
    """Spark did not start, or a task failed for another reason than the above."""


class TaskFailedError(AmqplogError, OSError):
    """A task could not read its log or write its files; another try may."""


class LakeMissingError(AmqplogError):
    """A library that a kind of table needs is not installed."""

    def __init__(self, library: str) -> None:
        super().__init__(f"the package {library} is missing: pip install 'amqp-server[lake]'")


class StoreError(AmqplogError, OSError):
    """An object store cannot be used: it is not there, refuses, or lacks what is needed.

    An OSError too: whoever reads files takes it for what a failing disk is.
    """
