"""A log on the disk, with all that is needed to open it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.broker.storing.storage_settings import StorageSettings
    from appendlog import LogIdentity, LogOptions
    from appendlog.recovery.log_images import LogImage


class UnopenedLog(NamedTuple):
    """A log on the disk that is to be opened.

    Attributes:
        directory: Directory of the log.
        identity: Virtual host, queue and incarnation of the log.
        options: Options of the log.
        settings: How the log is kept on the disk.
        image: What is in the directory; None if the recovery has to read it.
    """

    directory: Path
    identity: LogIdentity
    options: LogOptions
    settings: StorageSettings
    image: LogImage | None
