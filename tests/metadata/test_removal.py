"""Entities are deleted in an order that a crash cannot confuse: marks, notes, dependents, rest."""

import asyncio
import errno
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.removal import Removal, RemovedEntity
from metadata.store import MetadataStore

NOTE = {"deleted": True}


class Steps(FileSystem):
    """Notes what becomes durable, and refuses what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.refused = ""

    def rename(self, source: Path, target: Path) -> None:
        self._do(f"put {target.stem}")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._do(f"remove {path.stem}")
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        if self.refused == f"sync {path.parent.name}":
            raise OSError(errno.EIO, "Input/output error")
        super().sync_directory(path)

    def _do(self, step: str) -> None:
        if step == self.refused:
            raise OSError(errno.EIO, "Input/output error")
        self.steps.append(step)


@dataclass
class Mark:
    """A mark that tells when it is set and taken back."""

    steps: list[str]
    fails: bool = False
    is_set: bool = field(default=False)

    def set(self) -> None:
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        self.steps.append("mark")
        self.is_set = True

    def remove(self) -> None:
        self.is_set = False


@pytest.fixture
def files() -> Steps:
    return Steps()


@pytest.fixture
def store(tmp_path: Path, files: Steps) -> MetadataStore:
    return MetadataStore(tmp_path, DocumentFiles(files))


def document(kind: str, name: str, number: int = 0) -> Document:
    return Document(kind, "/", name, {"number": number})


def removal(mark: Mark, note: dict[str, bool] | None = None) -> Removal:
    """Return the deletion of a queue with two bindings."""
    entity = RemovedEntity("queues", "q", note, [mark])
    return Removal("/", [entity], [("bindings", "b"), ("bindings", "c")])


async def fill(store: MetadataStore, files: Steps) -> None:
    await store.put(document("queues", "q"))
    for name in "bc":
        await store.put(document("bindings", name))
    files.steps.clear()


async def names(tmp_path: Path) -> list[str]:
    report = await MetadataStore(tmp_path).load()
    assert not report.unreadable
    return sorted(each.name for each in report.documents)


async def test_marks_come_first_and_the_document_last(store: MetadataStore, files: Steps) -> None:
    await fill(store, files)
    await asyncio.gather(*store.remove(removal(Mark(files.steps))))
    assert files.steps[0] == "mark"
    assert sorted(files.steps[1:3]) == ["remove b", "remove c"]
    assert files.steps[3:] == ["remove q"]


async def test_a_note_is_durable_before_a_dependent_goes(
    store: MetadataStore, files: Steps
) -> None:
    await fill(store, files)
    await asyncio.gather(*store.remove(removal(Mark(files.steps), NOTE)))
    assert files.steps[:2] == ["mark", "put q"]
    assert files.steps[4:] == ["remove q"]


async def test_what_is_declared_again_at_once_comes_behind_the_whole_deletion(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await fill(store, files)
    deleting = store.remove(removal(Mark(files.steps), NOTE))
    declaring = store.put(document("queues", "q", 2))
    binding = store.put(document("bindings", "b", 2), after=[("queues", "q")])
    await asyncio.gather(*deleting, declaring, binding)
    # The note was not overtaken by the new document, nor that by the old bindings.
    assert files.steps[:2] == ["mark", "put q"]
    assert files.steps.index("remove c") < files.steps.index("put q", 2)
    assert files.steps[-1] == "put b"
    assert await names(tmp_path) == ["b", "q"]


async def test_declaring_and_deleting_again_and_again_ends(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    """Changes that wait for each other would wait for ever."""
    waiting = []
    for number in range(5):
        waiting.append(store.put(document("queues", "q", number)))
        waiting += [
            store.put(document("bindings", name, number), after=[("queues", "q")]) for name in "bc"
        ]
        waiting += store.remove(removal(Mark(files.steps), NOTE if number % 2 else None))
    waiting.append(store.put(document("queues", "q", 9)))
    async with asyncio.timeout(20):
        await asyncio.gather(*waiting)
    assert await names(tmp_path) == ["q"]


async def test_a_binding_is_written_behind_its_ends_and_not_without_them(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    files.refused = "put q"
    declaring = store.put(document("queues", "q"))
    binding = store.put(document("bindings", "b"), after=[("queues", "q")])
    results = await asyncio.gather(declaring, binding, return_exceptions=True)
    assert [type(each) for each in results] == [DocumentWriteError] * 2
    assert await names(tmp_path) == []


@pytest.mark.parametrize("note", [None, NOTE], ids=["no note", "note"])
async def test_a_refused_mark_changes_nothing(
    tmp_path: Path, store: MetadataStore, files: Steps, note: dict[str, bool] | None
) -> None:
    await fill(store, files)
    results = await asyncio.gather(
        *store.remove(removal(Mark(files.steps, fails=True), note)), return_exceptions=True
    )
    assert {type(each) for each in results} == {DocumentWriteError}
    assert await names(tmp_path) == ["b", "c", "q"]


@pytest.mark.parametrize("refused", ["remove q", "remove b", "put q"])
async def test_a_refused_deletion_takes_its_mark_back(
    tmp_path: Path, store: MetadataStore, files: Steps, refused: str
) -> None:
    await fill(store, files)
    mark = Mark(files.steps)
    files.refused = refused
    note = NOTE if refused == "put q" else None
    results = await asyncio.gather(*store.remove(removal(mark, note)), return_exceptions=True)
    assert DocumentWriteError in {type(each) for each in results}
    assert not mark.is_set
    assert "q" in await names(tmp_path)
    # Whoever takes the name now must not have what was kept beside its own.
    files.refused = ""
    await store.put(document("queues", "q", 2))
    assert mark.is_set


async def test_what_could_not_be_removed_goes_before_another_entity_that_it_speaks_of(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    """A binding of a refused deletion was left behind when its exchange was deleted."""
    await fill(store, files)
    await store.put(document("exchanges", "x"))
    files.refused = "remove b"
    await asyncio.gather(*store.remove(removal(Mark(files.steps))), return_exceptions=True)
    files.refused = ""
    files.steps.clear()
    await asyncio.gather(*store.remove(Removal("/", [RemovedEntity("exchanges", "x")])))
    assert files.steps == ["remove b", "remove x"]
    assert await names(tmp_path) == ["q"]


async def test_what_may_be_written_though_it_was_refused_goes_before_what_it_speaks_of(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await store.put(document("exchanges", "x"))
    files.refused = "sync bindings"
    with pytest.raises(DocumentWriteError):
        await store.put(document("bindings", "b"), after=[("exchanges", "x")])
    assert await names(tmp_path) == ["b", "x"], "its name was there before it could be synced"
    files.refused = ""
    files.steps.clear()
    await asyncio.gather(*store.remove(Removal("/", [RemovedEntity("exchanges", "x")])))
    assert files.steps == ["remove b", "remove x"]
