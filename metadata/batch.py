"""A batch: documents that are written together, and of which a crash leaves all or none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from metadata.change import Change
from metadata.document import Document, encode_document
from metadata.errors import DocumentWriteError
from metadata.paths import document_path

if TYPE_CHECKING:
    from metadata.write_rounds import WriteRounds


class BatchChange(Change):
    """The change of all documents of a batch; other changes of these documents wait for it.

    Attributes:
        contents: New content of each document's file, by path.
        vhosts: Encoded virtual hosts of the documents.
        replaced: By path, the change of the document that was the last one before this batch.
        left: Those of its paths at which a file may be that no caller expects; see
            `WriteRounds.left`.
        is_closed: Whether it has all its documents.
        decided: Done when the documents count even after a crash.
        is_decided: Whether they do.
        refusal: Why the disk did not take the documents of a decided batch at the last attempt;
            None if there was none, or no attempt yet.
    """

    __slots__ = (
        "contents",
        "decided",
        "is_closed",
        "is_decided",
        "left",
        "refusal",
        "replaced",
        "vhosts",
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.contents: dict[Path, bytes] = {}
        self.vhosts: set[str] = set()
        self.replaced: dict[Path, Change] = {}
        self.left: set[Path] = set()
        self.is_closed = False
        self.is_decided = False
        self.refusal: OSError | None = None
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def fails_followers(self) -> bool:
        """Whether a failure fails all changes that wait.

        If the batch is decided and cannot be written, nothing that follows may count: the next load
        writes the batch over it.
        """
        return self.is_decided


class Batch:
    """Documents that are written together; made by `MetadataStore.open_batch`.

    The caller adds documents, then calls either `commit` or `cancel`. From the moment in which a
    document is added, other changes of it wait until the batch has ended. So a deletion that
    follows is carried out after the batch, and no crash brings the document back.

    Args:
        root: The `metadata` directory.
        rounds: Writes the changes.
    """

    def __init__(self, root: Path, rounds: WriteRounds) -> None:
        self._root = root
        self._rounds = rounds
        self._change = rounds.open_batch()

    def put(self, document: Document) -> None:
        """Add a document that is to be created or replaced; encoded at once.

        Raises:
            UnstorableDocumentError: JSON cannot hold it exactly; it was not added.
        """
        path = document_path(self._root, document.kind, document.vhost, document.name)
        self._rounds.put_in_batch(self._change, path, encode_document(document))

    async def commit(self) -> None:
        """Return when all documents survive a crash; they are written in the background.

        Raises:
            DocumentWriteError: The disk refused, or it has no room yet for an earlier batch; no
                document was written.
        """
        self._rounds.close_batch(self._change)
        await asyncio.shield(self._change.decided)

    async def finished(self) -> None:
        """Return when each document of a committed batch is in its own file, on the disk.

        Raises:
            DocumentWriteError: The disk still refused when the store was closed. The next load of
                the documents completes the batch.
        """
        if not self._change.is_done:
            await self._change.outcome()
        elif self._change.error is not None:
            raise DocumentWriteError(*self._change.error)

    def cancel(self) -> None:
        """Write no document; changes that need one of them fail, others of the same ones go on."""
        self._rounds.cancel_batch(self._change)
