"""Entities are deleted in an order that a crash cannot confuse: marks, notes, dependents, rest."""

import asyncio
import errno
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from metadata.change import Change
from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.open_removal import Dependent
from metadata.removal import Removal, RemovedEntity
from metadata.store import MetadataStore
from tests.limits import HANG_SECONDS

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
    async with asyncio.timeout(HANG_SECONDS):
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


@pytest.mark.parametrize("kind", ["queues", "bindings"])
async def test_what_may_be_written_though_it_was_refused_is_removed_when_it_is_not_wanted(
    tmp_path: Path, store: MetadataStore, files: Steps, kind: str
) -> None:
    """The name was on the disk, but not its directory: the declare failed, and a start had it."""
    await fill(store, files)
    files.refused = f"sync {kind}"
    with pytest.raises(DocumentWriteError):
        await store.put(document(kind, "new"), [("queues", "q")] if kind == "bindings" else ())
    files.refused = ""
    assert "new" in await names(tmp_path)
    removed = store.make_removed(kind, "/", "new")
    assert removed is not None
    await removed
    assert await names(tmp_path) == ["b", "c", "q"]
    assert store.make_removed(kind, "/", "new") is None
    assert store.make_removed(kind, "/", "other") is None


@pytest.mark.parametrize("refused", ["remove q", "remove b", "put q"])
async def test_a_refused_removal_that_is_repeated_is_as_whole_as_the_first(
    tmp_path: Path, store: MetadataStore, files: Steps, refused: str
) -> None:
    await fill(store, files)
    mark = Mark(files.steps)
    files.refused = refused
    note = NOTE if refused == "put q" else None
    await asyncio.gather(*store.remove(removal(mark, note)), return_exceptions=True)
    files.refused = ""
    files.steps.clear()
    removed = store.make_removed("queues", "/", "q")
    assert removed is not None
    await removed
    assert mark.is_set
    assert files.steps[-1] == "remove q", "its bindings go before it"
    assert await names(tmp_path) == []
    assert store.make_removed("queues", "/", "q") is None


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


def refers(name: str, *ends: tuple[str, str]) -> Dependent:
    return Dependent("bindings", name, ends)


Q, X = ("queues", "q"), ("exchanges", "x")


async def test_a_document_waits_for_all_parts_of_its_removal(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await fill(store, files)
    opened = store.open_removal("/")
    opened.add(RemovedEntity("queues", "q", None, [Mark(files.steps)]))
    opened.remove_dependents([refers("b", Q)])
    await store.drain()
    assert files.steps == ["mark", "remove b"]
    opened.remove_dependents([refers("c", Q)])
    await asyncio.gather(*opened.finish())
    assert files.steps[2:] == ["remove c", "remove q"]
    assert await names(tmp_path) == []


async def test_what_is_declared_before_the_last_part_is_durable_comes_behind_it(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await fill(store, files)
    opened = store.open_removal("/")
    opened.add(RemovedEntity("queues", "q", NOTE))
    opened.remove_dependents([refers("b", Q)])
    await store.drain()
    opened.remove_dependents([refers("c", Q)])
    deleting = opened.finish()
    declaring = store.put(document("queues", "q", 2))
    binding = store.put(document("bindings", "c", 2), after=[Q])
    await asyncio.gather(*deleting, declaring, binding)
    assert files.steps == ["put q", "remove b", "remove c", "put q", "put c"]
    assert await names(tmp_path) == ["c", "q"]


@pytest.mark.parametrize("is_deleted_first", [True, False])
async def test_a_document_stays_while_one_refers_to_it_that_another_removal_could_not_remove(
    tmp_path: Path, store: MetadataStore, files: Steps, is_deleted_first: bool
) -> None:
    """A crash would have left a binding to a queue without a document: that is damage."""
    await fill(store, files)
    await store.put(document("exchanges", "x"))
    files.refused = "remove b"
    exchange, queue = store.open_removal("/"), store.open_removal("/")
    if is_deleted_first:
        queue.add(RemovedEntity("queues", "q", NOTE))
    exchange.add(RemovedEntity("exchanges", "x", NOTE))
    exchange.remove_dependents([refers("b", Q, X)])
    if not is_deleted_first:
        queue.add(RemovedEntity("queues", "q", NOTE))
    queue.remove_dependents([refers("c", Q)])
    outcomes = [*queue.finish(), *exchange.finish()]
    results = await asyncio.gather(*outcomes, return_exceptions=True)
    assert {type(each) for each in results} == {DocumentWriteError}
    assert await names(tmp_path) == ["b", "q", "x"]


async def test_a_refused_bind_does_not_keep_its_queue_from_being_deleted(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await store.put(document("queues", "q"))
    files.refused = "put b"
    binding = store.put(document("bindings", "b"), after=[Q])
    deleting = store.remove(Removal("/", [RemovedEntity("queues", "q")]))
    results = await asyncio.gather(binding, *deleting, return_exceptions=True)
    assert [type(each) for each in results] == [DocumentWriteError, type(None)]
    assert await names(tmp_path) == []


@pytest.mark.parametrize("is_repeated", [True, False])
async def test_a_binding_that_is_bound_again_stays_while_another_queue_is_deleted(
    tmp_path: Path, store: MetadataStore, files: Steps, is_repeated: bool
) -> None:
    """The disk had refused to remove it before."""
    await fill(store, files)
    await store.put(document("queues", "other"))
    files.refused = "remove b"
    await asyncio.gather(
        *store.remove(Removal("/", [], [("bindings", "b")])), return_exceptions=True
    )
    files.refused = "remove other"
    if is_repeated:
        with pytest.raises(DocumentWriteError):
            await store.delete("queues", "/", "other")
    files.refused = ""
    binding = store.put(document("bindings", "b", 2), after=[Q])
    if is_repeated:
        repeated = store.make_removed("queues", "/", "other")
        assert repeated is not None
        deleting = [repeated]
    else:
        removal = store.open_removal("/")
        removal.add(RemovedEntity("queues", "other"))
        deleting = removal.finish()
    await asyncio.gather(binding, *deleting)
    assert "b" in await names(tmp_path)
    assert "other" not in await names(tmp_path)


async def test_thousands_of_changes_that_wait_for_one_are_released_in_parts(
    tmp_path: Path, store: MetadataStore, files: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put(document("queues", "q"))
    release_some = Change.release_some
    ticks = 0
    released: list[tuple[int, int]] = []

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        asyncio.get_running_loop().call_soon(tick)

    def note(change: Change, count_max: int) -> list[Change]:
        ready = release_some(change, count_max)
        released.append((ticks, len(ready)))
        return ready

    monkeypatch.setattr(Change, "release_some", note)
    opened = store.open_removal("/")
    opened.add(RemovedEntity("queues", "q", NOTE))
    opened.remove_dependents(refers(f"b{number}", Q) for number in range(1000))
    outcomes = opened.finish()
    tick()
    await asyncio.gather(*outcomes)

    parts = [part for part in released if part[1]]
    # One of those that wait for the note waits for all others too.
    assert [count for _, count in parts] == [255, 256, 256, 233]
    assert len({at for at, _ in parts}) == len(parts), "other work ran between them"
    assert await names(tmp_path) == []


async def test_a_virtual_host_is_cleared_behind_removals_that_are_open(
    tmp_path: Path, store: MetadataStore, files: Steps
) -> None:
    await fill(store, files)
    opened = store.open_removal("/")
    opened.add(RemovedEntity("queues", "q", NOTE))
    clearing = asyncio.ensure_future(store.clear_vhost("%2f"))
    await store.drain()
    assert not clearing.done()
    opened.remove_dependents([refers("b", Q)])
    await asyncio.gather(*opened.finish(), clearing)
    assert await names(tmp_path) == []


async def test_others_do_not_wait_for_all_that_a_deletion_takes_along(
    store: MetadataStore, files: Steps
) -> None:
    """Nor does the deletion wait for ever beside others that never end."""
    await store.put(document("queues", "q"))
    opened = store.open_removal("/")
    opened.add(RemovedEntity("queues", "q"))
    names = [f"b{number}" for number in range(600)]
    await asyncio.gather(*(store.put(document("bindings", name)) for name in names))
    opened.remove_dependents(refers(name, Q) for name in names)
    outcomes = opened.finish()
    files.steps.clear()
    await asyncio.gather(*(store.put(document("exchanges", f"x{n}")) for n in range(600)))
    others = [step.startswith("put x") for step in files.steps]

    assert sum(others[:256]) == 256 - 64
    removed_before_the_last = len(others) - others[::-1].index(True) - 600
    assert 3 * 64 <= removed_before_the_last < 600
    await asyncio.gather(*outcomes)
    assert files.steps[-1] == "remove q"
