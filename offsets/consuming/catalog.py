"""Catalog of the logs in a data directory, with the same definitions as a server's queues.

An embedded log is a stream to a server, the commands and Spark, so that they find it by its name.
It is in the virtual host `/` unless another one is named. A server's queues of other types are not
logs here: their settled messages do not depend on groups, so retention would remove unread ones.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from appendlog import FileSystem, LogIdentity
from appendlog.files.deleted_mark import (
    has_deleted_mark,
    remove_deleted_mark,
    set_deleted_mark,
)
from metadata.data_format import read_format
from metadata.direct_write import remove_document, write_document
from metadata.document import DOCUMENT_BYTES_MAX, Document, decode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError, DocumentWriteError, StorageFormatError
from metadata.log_directories import logs_of_queue, remove_log
from metadata.names import encode_name, is_encoded_name, log_directory, vhost_directory
from metadata.paths import DOCUMENT_SUFFIX, document_path
from offsets.errors import InvalidLogNameError

logger: Final = logging.getLogger("offsets.consuming.catalog")

DEFAULT_VHOST: Final = "/"
LOGS_MAX: Final = 100_000
"""Maximum number of logs of a virtual host, the same as for a server's queues."""

_QUEUES: Final = "queues"
_QUEUE_TYPE: Final = "x-queue-type"
_STREAM: Final = "stream"
_VHOSTS: Final = "vhosts"
_DELETED: Final = "deleted"
_NAME_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Name, identity and directory of one log.

    Attributes:
        name: Name of the log, any text.
        identity: Identity that its chunks carry.
        directory: Directory of its files; missing until the first write.
    """

    name: str
    identity: LogIdentity
    directory: Path


class LogCatalog:
    """Definitions of the logs in one virtual host of a data directory.

    Args:
        root: Data directory.
        vhost: Name of the virtual host.
        filesystem: File operations; those of the operating system by default.
    """

    def __init__(
        self, root: Path | str, vhost: str = DEFAULT_VHOST, filesystem: FileSystem | None = None
    ) -> None:
        self._root = Path(root)
        self._vhost = vhost
        self._filesystem = filesystem or FileSystem()
        self._files = DocumentFiles(self._filesystem)
        self._known: dict[str, LogPlace] = {}

    def find(self, pattern: str = "*") -> dict[str, LogPlace]:
        """Return the present logs by name, in the order of their names.

        Lists a directory, and reads the definitions that are new since the last call or have
        nothing on the disk yet. Skips queues that are not streams, and invalid definitions, which
        `amqp-server verify` reports.

        Args:
            pattern: Shell pattern with `*`, `?` and `[...]`, case-sensitive.

        Raises:
            OSError: The directory cannot be read.
        """
        directory = self._root / "metadata" / _QUEUES / encode_name(self._vhost)
        try:
            names = self._filesystem.listdir(directory)
        except FileNotFoundError:
            names = []
        known, self._known = self._known, {}
        accepts_unsigned = self._has_unsigned_documents()
        for file_name in names:
            place = known.get(file_name)
            if place is None or not self._filesystem.exists(place.directory):
                place = self._read(directory / file_name, accepts_unsigned=accepts_unsigned)
            if place is not None:
                self._known[file_name] = place
        places = sorted(self._known.values(), key=lambda place: place.name)
        return {each.name: each for each in places if fnmatchcase(each.name, pattern)}

    def create(self, name: str) -> LogPlace:
        """Return the log of a name; makes its definition durable if there is none.

        Raises:
            InvalidLogNameError: The name is empty, longer than 255 bytes of UTF-8 or not UTF-8. Or
                it belongs to a queue that is not a stream, or to an unreadable definition.
            DocumentWriteError: The definition cannot be written.
            OSError: The definitions cannot be read.
        """
        check_log_name(name)
        place = self.find().get(name)
        if place is not None:
            return place
        if len(self._known) >= LOGS_MAX:
            raise InvalidLogNameError(name, f"would be one more than {LOGS_MAX} logs")
        metadata = self._root / "metadata"
        self._finish_removal(encode_name(name))
        if self._filesystem.exists(document_path(metadata, _QUEUES, self._vhost, name)):
            # Overwriting that definition would lose its messages.
            raise InvalidLogNameError(name, "belongs to a queue that is not a stream or is damaged")
        incarnation = uuid4()
        if not self._has_vhost(name):
            # A queue whose virtual host has no definition would belong to none.
            write_document(metadata, Document(_VHOSTS, "", self._vhost, {}), self._files)
        body = {
            "incarnation": str(incarnation),
            "auto_delete": False,
            "arguments": {_QUEUE_TYPE: _STREAM},
        }
        write_document(metadata, Document(_QUEUES, self._vhost, name, body), self._files)
        return self._place(name, incarnation)

    def finish_removals(self) -> list[UUID]:
        """Complete removals of logs that a crash has interrupted.

        No other process may write to the root.
        Costs the listing of the directory of logs, and a look at those that have no definition.
        What the disk refuses to remove stays, and a warning says so: the next writer tries again.

        Returns:
            The incarnations of the logs that were removed.
        """
        directory = vhost_directory(self._root, self._vhost)
        removed: list[UUID] = []
        try:
            known = {encode_name(name) for name in self.find()}
            names = self._filesystem.listdir(directory)
        except FileNotFoundError:
            return removed
        except OSError as error:
            logger.warning("deleted logs not looked for path=%s error=%s", directory, error)
            return removed
        for name in names:
            if name in known or not is_encoded_name(name):
                continue
            try:
                removed += self._finish_removal(name)
            except (OSError, DocumentWriteError) as error:
                logger.warning("deleted log left path=%s error=%s", directory / name, error)
        return removed

    def remove(self, place: LogPlace) -> None:
        """Mark a log as deleted, then remove its definition; the caller removes its files.

        Once marked, the log is removed after a crash by the next process that finds it. Nothing may
        append to the log during this call.

        Raises:
            DocumentWriteError: The mark or the removal failed; the log may still exist.
        """
        metadata = self._root / "metadata"
        path = document_path(metadata, _QUEUES, self._vhost, place.name)
        try:
            if self._filesystem.exists(place.directory):
                set_deleted_mark(self._filesystem, place.directory)
            remove_document(metadata, _QUEUES, self._vhost, place.name, self._files)
        except (OSError, DocumentWriteError) as error:
            if self._filesystem.exists(path):
                # The definition still exists, so the log must not be marked as deleted.
                with suppress(OSError):
                    remove_deleted_mark(self._filesystem, place.directory)
            if isinstance(error, OSError):
                raise DocumentWriteError(place.directory, error) from error
            raise

    def _finish_removal(self, encoded_name: str) -> list[UUID]:
        """Remove what a crash left of logs of one name that were being removed.

        Args:
            encoded_name: As `encode_name` gives it.
        """
        filesystem = self._filesystem
        directory = vhost_directory(self._root, self._vhost) / encoded_name
        deleted = [log for log in logs_of_queue(directory, filesystem) if log.is_deleted]
        if not deleted:
            return []
        metadata = self._root / "metadata"
        path = metadata / _QUEUES / directory.parent.name / f"{encoded_name}{DOCUMENT_SUFFIX}"
        if filesystem.exists(path):
            place = self._decode(path, accepts_unsigned=self._has_unsigned_documents())
            if place is not None and place.directory in [log.path for log in deleted]:
                remove_document(metadata, _QUEUES, self._vhost, place.name, self._files)
        for log in deleted:
            remove_log(log.path, filesystem)
        with suppress(OSError):
            # A log of another life keeps it.
            filesystem.rmdir(directory)
        return [log.incarnation for log in deleted]

    def _has_vhost(self, name: str) -> bool:
        """Return whether the virtual host has a definition and is not deleted.

        Raises:
            InvalidLogNameError: The virtual host is deleted. A start of the server removes the rest
                of it, and would remove a new log too.
        """
        metadata = self._root / "metadata"
        path = document_path(metadata, _VHOSTS, "", self._vhost)
        if not self._filesystem.exists(path):
            return False
        try:
            content = self._filesystem.read_file(path, DOCUMENT_BYTES_MAX + 1)
            document = decode_document(content, accepts_unsigned=self._has_unsigned_documents())
        except (OSError, DocumentFormatError):
            return True
        if document.body.get(_DELETED) is not True:
            return True
        encoded = encode_name(self._vhost)
        rest = [metadata / kind / encoded for kind in self._filesystem.listdir(metadata)]
        rest.append(vhost_directory(self._root, self._vhost))
        if any(self._filesystem.exists(each) and self._filesystem.listdir(each) for each in rest):
            raise InvalidLogNameError(
                name,
                f"is in virtual host '{self._vhost}', which is deleted: start the server once, so "
                "that it removes the rest",
            )
        return False

    def _has_unsigned_documents(self) -> bool:
        try:
            return read_format(self._root).has_unsigned_documents
        except (OSError, StorageFormatError):
            return False

    def _read(self, path: Path, *, accepts_unsigned: bool) -> LogPlace | None:
        place = self._decode(path, accepts_unsigned=accepts_unsigned)
        if place is None or has_deleted_mark(self._filesystem, place.directory):
            return None
        return place

    def _decode(self, path: Path, *, accepts_unsigned: bool) -> LogPlace | None:
        if path.suffix != DOCUMENT_SUFFIX:
            return None
        try:
            content = self._filesystem.read_file(path, DOCUMENT_BYTES_MAX + 1)
            document = decode_document(content, accepts_unsigned=accepts_unsigned)
            incarnation = UUID(document.body["incarnation"])
            is_stream = document.body["arguments"].get(_QUEUE_TYPE) == _STREAM
        except (OSError, DocumentFormatError, KeyError, TypeError, ValueError, AttributeError):
            return None
        # A copy of the definition under another name is not a second log.
        is_here = document.vhost == self._vhost and encode_name(document.name) == path.stem
        if not (is_stream and is_here):
            return None
        return self._place(document.name, incarnation)

    def _place(self, name: str, incarnation: UUID) -> LogPlace:
        return LogPlace(
            name,
            LogIdentity(self._vhost, name, incarnation),
            log_directory(self._root, self._vhost, name, incarnation),
        )


def check_log_name(name: str) -> None:
    """Check that a log may have this name.

    Raises:
        InvalidLogNameError: The name is empty, longer than 255 bytes of UTF-8 or not UTF-8.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidLogNameError(name, "is not UTF-8") from None
    if not 1 <= size <= _NAME_BYTES_MAX:
        raise InvalidLogNameError(name, f"has {size} bytes: it must have 1 to {_NAME_BYTES_MAX}")
