"""Keep one JSON file per entity, replaced atomically.

The new content is written beside the old and synced, renamed over it, and the directory is
synced; only then does the call return. A crash leaves the old document or the new one, and at
worst a `.tmp` file that the next start removes.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path

from metadata.change import Change
from metadata.document import Document, encode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError, UnstorableDocumentError
from metadata.file_workers import FileWorkers
from metadata.loading import LoadReport, load_documents
from metadata.names import encode_name
from metadata.paths import document_path
from metadata.removal import Removal, RemovedEntity
from metadata.write_rounds import WriteRounds


class MetadataStore:
    """Durable set of documents below one directory; belongs to one event loop.

    Changes made at the same time share their directory syncs, so many `put` calls at once cost
    far less than one after another.
    """

    def __init__(self, root: Path, files: DocumentFiles | None = None) -> None:
        """Prepare a store; nothing is touched on the disk.

        Args:
            root: The `metadata` directory; created by the first `put`.
            files: The file operations; the real ones by default.
        """
        self._root = root
        self._files = DocumentFiles() if files is None else files
        self._workers = FileWorkers()
        self._rounds = WriteRounds(root, self._files, self._workers)

    async def load(self, *, accepts_unsigned: bool = False) -> LoadReport:
        """Read every document; call it once, before the first change.

        One bad file never stops the rest: it is reported, and stays for people to look at.

        Args:
            accepts_unsigned: Take documents without a checksum: the data directory is of an
                earlier format, or is being upgraded.

        Returns:
            The documents, and what could not be read.
        """
        return await self._workers.run(self._load, accepts_unsigned)

    def put(
        self, document: Document, after: Sequence[tuple[str, str]] = ()
    ) -> Coroutine[None, None, None]:
        """Begin to create or replace a document; what is returned, awaited, makes sure of it.

        Changes of one document happen in the order of the calls, not of the awaits: the last one
        stays. Cancelling stops the wait, not the write.

        Args:
            document: Encoded at once, so its body may change afterwards.
            after: Kind and name of documents of the same virtual host that this one speaks of:
                what was asked for of them is durable before it is written, or it is not written.

        Raises:
            UnstorableDocumentError: JSON cannot hold it exactly; nothing was written.
            DocumentWriteError: The disk refused; the stored document is the old or the new one.
        """
        path = document_path(self._root, document.kind, document.vhost, document.name)
        try:
            content = encode_document(document)
        except UnstorableDocumentError as error:
            return _refused(error)
        needed = (
            self._rounds.last(document_path(self._root, kind, document.vhost, name))
            for kind, name in after
        )
        changes = [each for each in needed if each is not None]
        return self._rounds.submit(path, content, after=changes, is_dependent=bool(after)).outcome()

    def delete(self, kind: str, vhost: str, name: str) -> Coroutine[None, None, None]:
        """Begin to remove a document if it exists; await what is returned, as in `put`.

        Raises:
            DocumentWriteError: The disk refused; the document may still be there.
        """
        return self._rounds.submit(document_path(self._root, kind, vhost, name), None).outcome()

    def remove(self, removal: Removal) -> list[Coroutine[None, None, None]]:
        """Begin to delete entities with all that speaks of them; see `Removal`.

        What is asked for later of one of these documents comes after this, as in `put`.

        Returns:
            What to await, each: when all are done, nothing of it can come back.

        Raises:
            DocumentWriteError: When awaited: the disk refused something. An entity whose document
                could not be touched is as it was, but for documents that spoke of it.
        """
        first: list[Change] = []
        for entity in removal.entities:
            first += self._announce(removal.vhost, entity)
        rounds = self._rounds
        paths = [
            document_path(self._root, kind, removal.vhost, name)
            for kind, name in removal.dependents
        ]
        if removal.entities:
            paths += set(rounds.left(encode_name(removal.vhost))).difference(paths)
        dependents = [rounds.submit(path, None, after=first, is_dependent=True) for path in paths]
        last = [
            rounds.submit(
                document_path(self._root, each.kind, removal.vhost, each.name),
                None,
                after=first + dependents,
                marks=each.marks if each.note is None else (),
            )
            for each in removal.entities
        ]
        return [each.outcome() for each in (*dependents, *last)]

    def _announce(self, vhost: str, entity: RemovedEntity) -> list[Change]:
        """Begin to say on the disk that an entity is deleted; return the changes."""
        path = document_path(self._root, entity.kind, vhost, entity.name)
        changes: list[Change] = []
        if entity.marks:
            changes.append(self._rounds.submit_marks(path, entity.marks))
        if entity.note is not None:
            content = encode_document(Document(entity.kind, vhost, entity.name, entity.note))
            note = self._rounds.submit(
                path, content, after=changes, is_note=True, marks=entity.marks
            )
            changes.append(note)
        return changes

    def pending(self, kind: str, vhost: str, name: str) -> Coroutine[None, None, None] | None:
        """Return what to await until the last change of a document is durable; None: it is.

        Raises:
            DocumentWriteError: When awaited: the disk refused the change.
        """
        return self._rounds.pending(document_path(self._root, kind, vhost, name))

    async def clear_vhost(self, encoded_vhost: str) -> None:
        """Remove every document that belongs to a virtual host, readable or not.

        Durable on return. Its own document is none of these: it belongs to no virtual host.
        What was asked for before is done first; nothing of it may be changed meanwhile.

        Args:
            encoded_vhost: As `encode_name` gives it.

        Raises:
            DocumentWriteError: The disk refused; some of the documents may still be there.
        """
        assert encoded_vhost != encode_name(""), "what belongs to no virtual host is not cleared"
        await self._rounds.until_quiet(encoded_vhost)
        await self._workers.run(self._clear_vhost, encoded_vhost)

    async def close(self) -> None:
        """Return when every change submitted so far is durable or has failed; the last call."""
        await self._rounds.drain()
        self._workers.close()

    # In a worker thread

    def _load(self, accepts_unsigned: bool) -> LoadReport:
        return load_documents(
            self._root, self._files, self._workers.share_out, accepts_unsigned=accepts_unsigned
        )

    def _clear_vhost(self, encoded_vhost: str) -> None:
        directory = self._root
        try:
            for kind in self._files.list_names(self._root):
                directory = self._root / kind / encoded_vhost
                self._clear_directory(directory)
        except FileNotFoundError:
            # Nothing was ever written.
            return
        except OSError as cause:
            raise DocumentWriteError(directory, cause) from cause

    def _clear_directory(self, directory: Path) -> None:
        try:
            self._files.remove_directory(directory)
        except NotADirectoryError:
            # A file of somebody else's beside the kinds; loading passes over it too.
            return
        self._rounds.forget_directory(directory)
        self._files.sync_directory(directory.parent)


async def _refused(error: UnstorableDocumentError) -> None:
    raise error
