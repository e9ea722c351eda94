"""Which logs a directory has: the same definitions that a server keeps of its queues.

So that a server, the commands and Spark find an embedded log by its name, it is a stream to them,
in the virtual host `/` unless another one is named. A server's queues of other types are no logs
here: what is settled in them is not what groups say, so retention would take what nobody had.
"""

from __future__ import annotations

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
from metadata.log_directories import remove_log
from metadata.names import encode_name, log_directory, vhost_directory
from metadata.paths import DOCUMENT_SUFFIX, document_path
from offsets.errors import InvalidLogNameError

DEFAULT_VHOST: Final = "/"
LOGS_MAX: Final = 100_000
"""How many logs a virtual host may have; as many as a server's has queues."""

_QUEUES: Final = "queues"
_QUEUE_TYPE: Final = "x-queue-type"
_STREAM: Final = "stream"
_VHOSTS: Final = "vhosts"
_DELETED: Final = "deleted"
_NAME_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where one log is.

    Attributes:
        name: Its name, any text.
        identity: Whose chunks it has.
        directory: Its files; missing until something is on the way to the disk.
    """

    name: str
    identity: LogIdentity
    directory: Path


class LogCatalog:
    """The definitions of the logs of one virtual host of a data directory.

    Args:
        root: The data directory.
        vhost: Name of the virtual host.
        filesystem: The operating system's by default.
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
        """Return the logs there are now, by name, in its order.

        Costs the listing of a directory, and reading the definitions that are new since the last
        time or have nothing on the disk yet. Queues that are no streams are passed over, and so is
        what is no definition: `amqp-server verify` tells of it.

        Args:
            pattern: `*`, `?` and `[...]` as in a shell, upper and lower case told apart.

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
        """Return the log of a name, making its definition durable where there is none.

        Raises:
            InvalidLogNameError: It is empty, longer than 255 bytes of UTF-8 or no UTF-8; or it is
                that of a queue that is no stream, or whose definition cannot be read.
            DocumentWriteError: The disk refused.
            OSError: The definitions cannot be read.
        """
        check_log_name(name)
        place = self.find().get(name)
        if place is not None:
            return place
        if len(self._known) >= LOGS_MAX:
            raise InvalidLogNameError(name, f"would be one more than {LOGS_MAX} logs")
        metadata = self._root / "metadata"
        self._finish_removal(name)
        if self._filesystem.exists(document_path(metadata, _QUEUES, self._vhost, name)):
            # Another definition in its place would be the end of its messages.
            raise InvalidLogNameError(name, "is that of a queue that is no stream, or is damaged")
        incarnation = uuid4()
        if not self._has_vhost(name):
            # A queue without its virtual host would belong to none.
            write_document(metadata, Document(_VHOSTS, "", self._vhost, {}), self._files)
        body = {
            "incarnation": str(incarnation),
            "auto_delete": False,
            "arguments": {_QUEUE_TYPE: _STREAM},
        }
        write_document(metadata, Document(_QUEUES, self._vhost, name, body), self._files)
        return self._place(name, incarnation)

    def remove(self, place: LogPlace) -> None:
        """Mark a log as deleted, then remove its definition; its files are the caller's.

        From the mark on, whoever comes across the log after a crash removes it. Nobody may append
        to it meanwhile.

        Raises:
            DocumentWriteError: The disk refused; the log may still be there.
        """
        metadata = self._root / "metadata"
        path = document_path(metadata, _QUEUES, self._vhost, place.name)
        try:
            if self._filesystem.exists(place.directory):
                set_deleted_mark(self._filesystem, place.directory)
            remove_document(metadata, _QUEUES, self._vhost, place.name, self._files)
        except (OSError, DocumentWriteError) as error:
            if self._filesystem.exists(path):
                # It is there, so what is in it must be.
                with suppress(OSError):
                    remove_deleted_mark(self._filesystem, place.directory)
            if isinstance(error, OSError):
                raise DocumentWriteError(place.directory, error) from error
            raise

    def _finish_removal(self, name: str) -> None:
        """Remove what a crash left of a log of this name that was being removed."""
        metadata = self._root / "metadata"
        path = document_path(metadata, _QUEUES, self._vhost, name)
        if not self._filesystem.exists(path):
            return
        place = self._decode(path, accepts_unsigned=self._has_unsigned_documents())
        if place is not None and has_deleted_mark(self._filesystem, place.directory):
            remove_document(metadata, _QUEUES, self._vhost, name, self._files)
            remove_log(place.directory, self._filesystem)

    def _has_vhost(self, name: str) -> bool:
        """Return whether the virtual host has a document that does not say that it is deleted.

        Raises:
            InvalidLogNameError: It is deleted, and a start of the server removes the rest of it: a
                new log would go with that.
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
        # A copy under another name is not a second log.
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
    """Check that a log can have this name.

    Raises:
        InvalidLogNameError: It is empty, longer than 255 bytes of UTF-8 or no UTF-8.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidLogNameError(name, "is not UTF-8") from None
    if not 1 <= size <= _NAME_BYTES_MAX:
        raise InvalidLogNameError(name, f"has {size} bytes, 1 to {_NAME_BYTES_MAX} are expected")
