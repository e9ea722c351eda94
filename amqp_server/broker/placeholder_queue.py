"""A queue that takes the place of one that the start could not recover, and refuses messages.

Without it, a message that is routed to the missing queue would be confirmed and dropped. The
placeholder is a queue whose log has failed for good. So all code that checks for a failed log
treats it correctly: publishes and transactions are refused, dead letters wait. It is in no table of
queues, and nothing of it is ever on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from amqp_server.broker.queue import Queue
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.storing.opened_log import OpenedLog
from appendlog import FileSystem, LogIdentity

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.broker.storing.storage import QueueStorage
    from amqp_server.broker.turn import Turn
    from amqp_server.broker.virtual_host import VirtualHost


class _NoFiles(FileSystem):
    """A file system without files, because the real path may be what cannot be read."""

    def exists(self, path: Path) -> bool:
        """Return False."""
        return False


def make_placeholder(
    virtual_host: VirtualHost, storage: QueueStorage, turn: Turn, name: str
) -> Queue:
    """Return a placeholder for a queue that could not be recovered.

    Args:
        virtual_host: Virtual host of the queue.
        storage: Source of message stores; shared by all queues.
        turn: Turn of queues; this one has nothing to do in it.
        name: Name of the queue.
    """
    incarnation = UUID(int=0)
    identity = LogIdentity(virtual_host.name, name, incarnation)
    settings = storage.settings({})
    log = storage.placeholder_log(identity, settings, _NoFiles())
    queue = Queue(
        virtual_host=virtual_host,
        name=name,
        durable=True,
        exclusive_owner=None,
        auto_delete=False,
        arguments={},
        settings=QueueSettings(),
        incarnation=incarnation,
        storage=storage,
        opened=OpenedLog(log, settings),
        turn=turn,
        on_changed=_leave_out,
    )
    queue.store.fail()
    storage.forget(queue.store)
    return queue


def _leave_out(queue: Queue) -> None:
    """Write no checkpoint of a placeholder: nothing of it is on the disk."""
