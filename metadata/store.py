"""Keeps one JSON file for each definition, replaced atomically.

The new content is written beside the old and synced, then renamed over it, then the directory is
synced; only then does the call return. A crash leaves the old or the new document, and at worst a
`.tmp` file that the next start removes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from appendlog.files.bulk_reads import READERS
from metadata.batch import Batch
from metadata.batch_files import carry_out
from metadata.document import Document, encode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError, UnstorableDocumentError
from metadata.file_workers import FileWorkers
from metadata.loading import LoadReport, load_documents
from metadata.name_list import NAMES_NAME, NameList, Place
from metadata.names import encode_name
from metadata.open_removal import Dependent, OpenRemoval
from metadata.paths import DOCUMENT_SUFFIX, document_path, place_of
from metadata.redo_file import REDO_NAME
from metadata.removal import Removal
from metadata.write_rounds import WriteRounds

logger: Final = logging.getLogger("metadata.store")


class MetadataStore:
    """Durable set of documents below one directory; belongs to one event loop.

    Changes that are made at the same time share their directory syncs, so many concurrent `put`
    calls cost far less than consecutive ones.
    """

    def __init__(
        self,
        root: Path,
        files: DocumentFiles | None = None,
        listed_kinds: frozenset[str] = frozenset(),
    ) -> None:
        """Create a store; reads and writes nothing.

        Args:
            root: The `metadata` directory; created by the first `put`.
            files: File operations; by default the operating system's.
            listed_kinds: Kinds of documents whose names are listed: their loss is noticed.
        """
        self._root = root
        self._files = DocumentFiles() if files is None else files
        self._workers = FileWorkers()
        self._names = NameList(root, self._files, listed_kinds)
        self._rounds = WriteRounds(root, self._files, self._workers, self._names)

    @property
    def on_written(self) -> Callable[[Path], None] | None:
        """Called with the path of each document that was replaced or removed; None: not."""
        return self._rounds.on_written

    @on_written.setter
    def on_written(self, told: Callable[[Path], None] | None) -> None:
        self._rounds.on_written = told

    async def load(
        self,
        *,
        accepts_unsigned: bool = False,
        believes_names: bool = False,
        expects_names: bool = False,
    ) -> LoadReport:
        """Read every document; call it once, before the first change.

        An unreadable file does not stop the others: it is reported and stays in its place. A batch
        that a crash has interrupted after its decision is completed. If the disk refuses that, its
        documents count all the same, and are written in the background as soon as the disk takes
        them.

        Args:
            accepts_unsigned: Whether to accept documents without a checksum: the data directory has
                an earlier format, or is being upgraded.
            believes_names: See `load_documents`.
            expects_names: See `load_documents`.

        Returns:
            The documents, and what could not be read.

        Raises:
            DocumentFormatError: The redo file of a batch is damaged.
        """
        report, refused = await self._workers.run(
            partial(self._load, believes_names=believes_names, expects_names=expects_names),
            accepts_unsigned,
        )
        if refused:
            self._rounds.resume_batch(refused)
        return report

    def open_batch(self) -> Batch:
        """Begin a batch: documents of which a crash leaves all or none; one at a time."""
        return Batch(self._root, self._rounds)

    def put(self, document: Document, after: Sequence[tuple[str, str]] = ()) -> Awaitable[None]:
        """Begin to create or replace a document; the returned awaitable ends when it is durable.

        Changes of one document happen in the order of the calls, not of the awaits: the last call
        decides. Cancelling stops the wait, not the write.

        Args:
            document: Document to write; encoded at once, so its body may change afterwards.
            after: Kind and name of documents of the same virtual host to which this one refers.
                Their earlier changes are durable before this one is written, or it is not written.

        Raises:
            UnstorableDocumentError: JSON cannot hold it exactly; nothing was written.
            DocumentWriteError: The disk refused; the stored document is the old or the new one.
        """
        path = document_path(self._root, document.kind, document.vhost, document.name)
        try:
            content = encode_document(document)
        except UnstorableDocumentError as error:
            return _refused(error)
        ends = [document_path(self._root, kind, document.vhost, name) for kind, name in after]
        needed = [change for end in ends if (change := self._rounds.last(end)) is not None]
        return self._rounds.submit(
            path, content, after=needed, is_dependent=bool(after), refers_to=ends
        ).outcome()

    def delete(self, kind: str, vhost: str, name: str) -> Awaitable[None]:
        """Begin to remove a document if it exists; await the result, as with `put`.

        Raises:
            DocumentWriteError: The disk refused; the document may still exist.
        """
        return self._rounds.submit(document_path(self._root, kind, vhost, name), None).outcome()

    async def discard(self, kind: str, vhost: str, name: str) -> None:
        """Remove a document that its owner has no use for any more; durable when this returns.

        Its loss is no damage from now on, also if this fails: `delete` keeps the name of a document
        that may still be there.

        Raises:
            DocumentWriteError: The disk refused; the document may still exist.
        """
        await self.forget_names([document_path(self._root, kind, vhost, name)])
        await self.delete(kind, vhost, name)

    def remove(self, removal: Removal) -> list[Awaitable[None]]:
        """Begin to delete definitions and all documents that refer to them; see `Removal`.

        Later changes of these documents come after this one, as with `put`.

        Returns:
            Awaitables. When all of them have ended, no part of the definitions can return.

        Raises:
            DocumentWriteError: When awaited: the disk refused something. A definition whose
                document could not be changed is unchanged, except for documents that referred to
                it.
        """
        opened = self.open_removal(removal.vhost)
        for entity in removal.entities:
            opened.add(entity)
        ends = [(entity.kind, entity.name) for entity in removal.entities]
        changes = opened.remove_dependents(
            Dependent(kind, name, ends) for kind, name in removal.dependents
        )
        return [*(each.outcome() for each in changes), *opened.finish()]

    def open_removal(self, vhost: str) -> OpenRemoval:
        """Return a deletion in one virtual host to which the caller adds its parts."""
        return OpenRemoval(self._root, self._rounds, vhost)

    def make_removed(self, kind: str, vhost: str, name: str) -> Awaitable[None] | None:
        """Return an awaitable that ends when an unwanted document is removed; None if it is.

        Its removal was submitted before, or the disk refused to write it. A removal that the disk
        has refused is submitted again.

        Raises:
            DocumentWriteError: When awaited: the disk refused the change.
        """
        return self._rounds.make_removed(document_path(self._root, kind, vhost, name))

    async def clear_vhost(self, encoded_vhost: str) -> None:
        """Remove every document of a virtual host, readable or not; durable when this returns.

        The document of the virtual host itself is none of these: it belongs to no virtual host.
        Earlier changes are completed first; none may be submitted during this call.

        Args:
            encoded_vhost: Name of the virtual host, encoded by `encode_name`.

        Raises:
            DocumentWriteError: The disk refused; some of the documents may still exist.
        """
        assert encoded_vhost != encode_name(""), "what belongs to no virtual host is not cleared"
        await self._rounds.until_quiet(encoded_vhost)
        await self._workers.run(self._clear_vhost, encoded_vhost)

    async def write_names(self) -> None:
        """Write the list of names if a load has found another one than is needed.

        Raises:
            DocumentWriteError: The disk refused; the next change tries again.
        """
        await self._change_names(self._names.write)

    async def forget_names(self, paths: Sequence[Path]) -> None:
        """Take documents off the list of names, because the caller moves their files away.

        Raises:
            DocumentWriteError: The disk refused.
        """
        await self._change_names(partial(self._names.remove, paths))

    async def _change_names(self, change: Callable[[], object]) -> None:
        try:
            await self._workers.run(lambda _: change(), None)
        except OSError as cause:
            raise DocumentWriteError(self._root / NAMES_NAME, cause) from cause

    @property
    def is_idle(self) -> bool:
        """Whether no change waits or is being written."""
        return self._rounds.is_idle

    async def drain(self) -> None:
        """Return when every submitted change is durable or has failed."""
        await self._rounds.drain()

    async def close(self) -> None:
        """Drain, then end the threads; must be the last call."""
        await self.drain()
        self._workers.close()

    # In a worker thread

    def _load(
        self, accepts_unsigned: bool, *, believes_names: bool, expects_names: bool
    ) -> tuple[LoadReport, Mapping[Path, bytes]]:
        """Return what was read, and the documents of a decided batch that the disk refused."""
        share_out = partial(self._workers.share_out, threads_max=READERS)
        report = load_documents(
            self._root,
            self._files,
            share_out,
            accepts_unsigned=accepts_unsigned,
            believes_names=believes_names,
            expects_names=expects_names,
        )
        refused = self._complete_batch(report)
        self._take_over_names(report)
        return report, refused

    def _complete_batch(self, report: LoadReport) -> Mapping[Path, bytes]:
        """Write what a crash has left of a decided batch; return what the disk refuses of it."""
        if not report.unfinished_batch:
            return {}
        try:
            carry_out(self._root, self._files, report.unfinished_batch)
        except OSError as error:
            logger.error(  # noqa: TRY400 - one line says it all
                "metadata batch of the last run not written, tried again path=%s documents=%d "
                "error=%s",
                self._root / REDO_NAME,
                len(report.unfinished_batch),
                error,
            )
            return report.unfinished_batch
        return {}

    def _take_over_names(self, report: LoadReport) -> None:
        """List what was found; what is missed stays listed until its loss is accepted."""
        if not self._names.kinds:
            return
        readable = (place_of(each.kind, each.vhost, each.name) for each in report.documents)
        others = (
            (each.kind, each.encoded_vhost, f"{each.encoded_name}{DOCUMENT_SUFFIX}")
            for each in report.unreadable
            if each.encoded_name
        )
        hidden = _below_unreadable(report)
        self._names.take_over(report.names, {*readable, *others, *hidden})

    def _clear_vhost(self, encoded_vhost: str) -> None:
        directory = self._root
        try:
            self._names.remove_vhost(encoded_vhost)
            for kind in self._files.list_names(self._root):
                directory = self._root / kind / encoded_vhost
                self._clear_directory(directory)
        except FileNotFoundError:
            # No document was ever written.
            return
        except OSError as cause:
            raise DocumentWriteError(directory, cause) from cause

    def _clear_directory(self, directory: Path) -> None:
        try:
            self._files.remove_directory(directory)
        except NotADirectoryError:
            # A foreign file beside the directories of the kinds; loading ignores it as well.
            return
        self._rounds.note_removed(directory)
        self._files.sync_directory(directory.parent)


def _below_unreadable(report: LoadReport) -> set[Place]:
    """Return the listed documents of directories that cannot be read."""
    if report.names is None:
        return set()
    directories = {
        (each.kind, each.encoded_vhost) for each in report.unreadable if not each.encoded_name
    }
    return {
        place
        for place in report.names.places
        if not directories.isdisjoint((place[:2], (place[0], ""), ("", "")))
    }


async def _refused(error: UnstorableDocumentError) -> None:
    raise error
