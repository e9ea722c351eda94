"""Names of queues in tables, and imports of the libraries of tables."""

import importlib
from typing import Any

from appendlog.spark.errors import LakeMissingError
from appendlog.spark.exporting.destination import OtherQueueError
from appendlog.spark.planning.queues import QueueLog
from metadata.name_texts import replaced_text


class OtherIncarnationError(OtherQueueError):
    """The table has rows of another queue of the same name, which was deleted."""

    def __init__(self, where: str, log: QueueLog) -> None:
        super().__init__(
            f"{where}: it has rows of a queue {log.queue!r} that was deleted or is another "
            "server's: offsets of one are not those of the other; give another --out"
        )


def app_id(log: QueueLog) -> str:
    """Return the key under which a table has the end of a queue's offsets."""
    return f"{queue_id(log)}:{log.incarnation}"


def queue_id(log: QueueLog) -> str:
    """Return the key under which a table has the incarnation of a queue."""
    return state_name(replaced_text(log.vhost), replaced_text(log.queue))


def newest_id(log: QueueLog) -> str:
    """Return the key under which a table has the append time of a queue's last row."""
    return f"amqplog-newest{app_id(log).removeprefix('amqplog')}"


def state_name(vhost: str, queue: str) -> str:
    """Return the same key from the names that rows have."""
    return f"amqplog:{vhost}/{queue}"


def sql_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def lake_module(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a library of the extra `lake`, which most installations lack.

    Raises:
        LakeMissingError: The library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name != library:
            raise
        raise LakeMissingError(library) from error
