"""What stands in the place of a queue that start-up could not bring back: it refuses.

If the queue were just missing, a message that is routed there would be confirmed and dropped. Its
stand-in is a queue whose log has failed for good, so that whatever asks whether a log has failed
treats it as it should: publishes are refused, transactions too, dead letters wait. It is in no
table of queues, and nothing of it is ever on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from amqp_server.broker.queue import Queue
from amqp_server.broker.storing.storage import OpenedLog
from appendlog import FileSystem, LogIdentity

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost


class _NoFiles(FileSystem):
    """A disk without a file: what is there may be the very thing that cannot be read."""

    def exists(self, path: Path) -> bool:
        """Find nothing."""
        return False


def make_placeholder(
    virtual_host: VirtualHost, storage: QueueStorage, turn: Turn, name: str
) -> Queue:
    """Return what refuses the messages of a queue that could not be brought back.

    Args:
        virtual_host: Where the queue was.
        storage: What stores need.
        turn: Where queues ask for their turn; this one has nothing to do.
        name: Of the queue.
    """
    incarnation = UUID(int=0)
    identity = LogIdentity(virtual_host.name, name, incarnation)
    settings = storage.settings({})
    log, _ = storage.open_log(identity, settings, filesystem=_NoFiles())
    queue = Queue(
        virtual_host=virtual_host,
        name=name,
        durable=True,
        exclusive_owner=None,
        auto_delete=False,
        arguments={},
        incarnation=incarnation,
        storage=storage,
        opened=OpenedLog(log, settings),
        turn=turn,
    )
    queue.store.is_failed = True
    storage.forget(queue.store)
    return queue
