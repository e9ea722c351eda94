"""Durable documents."""

import asyncio
import errno
import shutil
import threading
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError, UnstorableDocumentError
from metadata.store import MetadataStore
from metadata.write_rounds import ROUND_CHANGES_MAX
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS

NASTY_NAMES = [
    "../x",
    "a/b",
    "%2F",
    "%2f",
    "",
    "ü" * 127 + "x",
    "ü" * 127 + "y",
    "orders",
    "Orders",
    "ORDERS",
    "CON",
    "con",
    ".hidden",
    "..",
    ".",
    "a\0b",
    "x.json",
    "x.json.tmp",
    "x",
    "\udcff\udc80",
    "\u0061\u0301",
    "\u00e1",
]


class HeldFiles(DocumentFiles):
    """Stops at the first write until released, and remembers what was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.written: list[bytes] = []
        self.synced: list[Path] = []
        self._writing = threading.Event()

    async def until_writing(self) -> None:
        """Return when a write has begun."""
        assert await asyncio.to_thread(self._writing.wait, 10)

    def write(self, path: Path, content: bytes) -> None:
        self._writing.set()
        assert self.released.wait(HANG_SECONDS)
        self.written.append(content)
        super().write(path, content)

    def sync_directory(self, path: Path) -> None:
        self.synced.append(path)
        super().sync_directory(path)


def queue(name: str, number: int = 0) -> Document:
    return Document("queues", "/", name, {"number": number})


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if not path.is_dir()]


async def load(root: Path) -> list[Document]:
    report = await MetadataStore(root).load()
    assert report.unreadable == []
    return report.documents


async def done(change: Awaitable[None]) -> None:
    await change


async def test_a_store_that_was_never_written_is_empty(tmp_path: Path) -> None:
    report = await MetadataStore(tmp_path / "metadata").load()
    assert (report.documents, report.unreadable, report.removed_temporaries) == ([], [], 0)
    assert not (tmp_path / "metadata").exists()


async def test_documents_survive_a_restart_in_a_fixed_order(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    documents = [
        Document("exchanges", "/", "x", {}),
        Document("queues", "/", "a", {"arguments": {"x-max-length": 5}}),
        Document("queues", "/", "b", {}),
        Document("queues", "other", "a", {}),
        Document("users", "", "guest", {}),
    ]
    for document in reversed(documents):
        await store.put(document)
    assert await load(tmp_path) == documents
    assert (tmp_path / "queues" / "%2f" / "a.json").is_file()


async def test_nasty_names_survive_and_never_leave_the_directory(tmp_path: Path) -> None:
    root = tmp_path / "metadata"
    store = MetadataStore(root)
    documents = [
        Document("queues", vhost, name, {"self": name})
        for vhost in ("/", "..", "")
        for name in NASTY_NAMES
    ]
    async with asyncio.TaskGroup() as group:
        for document in documents:
            group.create_task(done(store.put(document)))
    files = files_below(tmp_path)
    assert {path.relative_to(tmp_path).parts[:2] for path in files} == {("metadata", "queues")}
    assert len(files) == len({str(path).lower() for path in files}) == len(documents)
    loaded = await load(root)
    assert sorted(loaded, key=repr) == sorted(documents, key=repr)
    for document in documents:
        await store.delete(document.kind, document.vhost, document.name)
    assert await load(root) == []


async def test_a_put_replaces_and_a_delete_removes(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    await store.put(queue("q", 1))
    await store.put(queue("q", 2))
    assert await load(tmp_path) == [queue("q", 2)]
    await store.delete("queues", "/", "q")
    assert await load(tmp_path) == []


async def test_deleting_what_does_not_exist_is_no_error(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path / "metadata")
    await store.delete("queues", "/", "q")
    await store.put(queue("a"))
    await store.delete("queues", "/", "q")
    assert await load(tmp_path / "metadata") == [queue("a")]


async def test_a_document_that_json_cannot_hold_is_refused_before_it_is_written(
    tmp_path: Path,
) -> None:
    store = MetadataStore(tmp_path)
    with pytest.raises(UnstorableDocumentError):
        await store.put(Document("queues", "/", "q", {"x": b""}))
    assert files_below(tmp_path) == []


async def test_the_body_may_change_once_put_has_been_called(tmp_path: Path) -> None:
    files = HeldFiles()
    store = MetadataStore(tmp_path, files)
    document = queue("q", 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(done(store.put(document)))
        await files.until_writing()
        document.body["number"] = 2
        files.released.set()
    assert await load(tmp_path) == [queue("q", 1)]


async def test_the_last_of_many_changes_of_one_document_stays(tmp_path: Path) -> None:
    files = HeldFiles()
    store = MetadataStore(tmp_path, files)
    async with asyncio.TaskGroup() as group:
        group.create_task(done(store.put(queue("q", 0))))
        await files.until_writing()
        for number in range(1, 100):
            group.create_task(done(store.put(queue("q", number))))
        group.create_task(done(store.delete("queues", "/", "q")))
        group.create_task(done(store.put(queue("q", 100))))
        await asyncio.sleep(0)
        files.released.set()
    assert await load(tmp_path) == [queue("q", 100)]
    # What waited was overtaken, not written one by one.
    assert len(files.written) == 2


async def test_changes_made_together_sync_their_directory_once(tmp_path: Path) -> None:
    files = HeldFiles()
    files.released.set()
    store = MetadataStore(tmp_path, files)
    await store.put(queue("first"))
    files.synced.clear()
    async with asyncio.TaskGroup() as group:
        for number in range(ROUND_CHANGES_MAX):
            group.create_task(done(store.put(queue(f"q{number}"))))
    assert files.synced == [tmp_path / "queues" / "%2f"]


class RecordingFileSystem(FileSystem):
    """Does what `FileSystem` does, and notes what becomes durable in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        written = super().pwritev(descriptor, buffers, position, sync)
        if sync:
            self.events.append("sync file")
        return written

    def fdatasync(self, descriptor: int) -> None:
        super().fdatasync(descriptor)
        self.events.append("sync file")

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.events.append("rename")

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.events.append("remove")

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.events.append("sync directory")


async def test_a_file_is_synced_before_its_rename_and_the_directory_after_it(
    tmp_path: Path,
) -> None:
    files = RecordingFileSystem()
    store = MetadataStore(tmp_path, DocumentFiles(files))
    await store.put(queue("first"))
    files.events.clear()
    await store.put(queue("q"))
    assert files.events == ["sync file", "rename", "sync directory"]
    files.events.clear()
    await store.delete("queues", "/", "q")
    assert files.events == ["remove", "sync directory"]
    files.events.clear()
    # New directories are entries of their parents, which must survive a power cut too.
    await store.put(Document("users", "", "guest", {}))
    assert files.events == ["sync directory"] * 3 + ["sync file", "rename", "sync directory"]


async def test_more_changes_than_a_round_holds_all_become_durable(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    async with asyncio.TaskGroup() as group:
        for number in range(ROUND_CHANGES_MAX + 10):
            group.create_task(done(store.put(queue(f"q{number}"))))
    assert len(await load(tmp_path)) == ROUND_CHANGES_MAX + 10


async def test_a_cancelled_put_is_still_written_and_close_waits_for_it(tmp_path: Path) -> None:
    files = HeldFiles()
    store = MetadataStore(tmp_path, files)
    putting = asyncio.create_task(done(store.put(queue("q"))))
    await files.until_writing()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    files.released.set()
    await store.close()
    await store.close()
    assert await load(tmp_path) == [queue("q")]


async def test_a_cancelled_put_of_a_failing_disk_reports_to_nobody(tmp_path: Path) -> None:
    files = DocumentFiles(FaultyFileSystem(tmp_path, 0))
    store = MetadataStore(tmp_path, files)
    putting = asyncio.create_task(done(store.put(queue("q"))))
    await asyncio.sleep(0)
    putting.cancel()
    await store.close()
    assert putting.cancelled()


async def test_callers_are_cancelled_with_the_task_that_works_for_them(tmp_path: Path) -> None:
    files = HeldFiles()
    store = MetadataStore(tmp_path, files)
    putting = [asyncio.create_task(done(store.put(queue("a"))))]
    await files.until_writing()
    putting += [
        asyncio.create_task(done(store.put(queue("a")))),
        asyncio.create_task(store.close()),
    ]
    await asyncio.sleep(0)
    putting[0].cancel()
    [rounds] = [task for task in asyncio.all_tasks() if task.get_name() == "metadata-write-rounds"]
    rounds.cancel()
    results = await asyncio.gather(*putting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2 + [type(None)]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\0" * 50, b'{"schema": 9}'], ids=["empty", "cut", "zeros", "schema"]
)
async def test_one_bad_file_is_reported_kept_and_stops_nothing(
    tmp_path: Path, content: bytes
) -> None:
    store = MetadataStore(tmp_path)
    for name in ("a", "b", "c"):
        await store.put(queue(name))
    bad = tmp_path / "queues" / "%2f" / "b.json"
    bad.write_bytes(content)
    report = await MetadataStore(tmp_path).load()
    assert report.documents == [queue("a"), queue("c")]
    [unreadable] = report.unreadable
    assert unreadable.path == bad
    assert (unreadable.kind, unreadable.encoded_vhost, unreadable.encoded_name) == (
        "queues",
        "%2f",
        "b",
    )
    assert unreadable.reason
    assert bad.read_bytes() == content


async def test_a_copy_under_another_name_is_reported_not_loaded(tmp_path: Path) -> None:
    await MetadataStore(tmp_path).put(queue("a"))
    original = tmp_path / "queues" / "%2f" / "a.json"
    (tmp_path / "queues" / "%2f" / "b.json").write_bytes(original.read_bytes())
    report = await MetadataStore(tmp_path).load()
    assert report.documents == [queue("a")]
    [unreadable] = report.unreadable
    assert unreadable.reason == "belongs to queues 'a'"


async def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    await MetadataStore(tmp_path).put(queue("a"))
    foreign = [
        tmp_path / "x.txt",
        tmp_path / "queues" / ".y",
        tmp_path / "queues" / "%2f" / "z.bak",
    ]
    for path in foreign:
        path.write_text("")
    assert await load(tmp_path) == [queue("a")]
    assert all(path.exists() for path in foreign)


async def test_a_directory_in_a_documents_place_is_reported(tmp_path: Path) -> None:
    (tmp_path / "queues" / "%2f" / "a.json").mkdir(parents=True)
    report = await MetadataStore(tmp_path).load()
    assert [unreadable.encoded_name for unreadable in report.unreadable] == ["a"]


@pytest.mark.parametrize("place", ["queues", "queues/%2f"])
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "dangling"])
async def test_what_stands_in_a_directorys_place_is_reported(
    tmp_path: Path, place: str, *, is_link: bool
) -> None:
    """A file there counted as no documents at all."""
    await MetadataStore(tmp_path).put(Document("users", "", "guest", {}))
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    if is_link:
        path.symlink_to("nowhere")
    else:
        path.write_text("in the way")
    report = await MetadataStore(tmp_path).load()
    assert report.documents == [Document("users", "", "guest", {})]
    [unreadable] = report.unreadable
    assert unreadable.path == path
    assert (unreadable.kind, unreadable.encoded_name) == ("queues", "")


async def test_a_directory_that_cannot_be_listed_is_reported(tmp_path: Path) -> None:
    class Unlistable(DocumentFiles):
        def list_names(self, directory: Path) -> list[str]:
            if directory.name == "queues":
                raise PermissionError(13, "Permission denied")
            return super().list_names(directory)

    store = MetadataStore(tmp_path, Unlistable())
    await store.put(queue("a"))
    await store.put(Document("users", "", "guest", {}))
    report = await store.load()
    assert report.documents == [Document("users", "", "guest", {})]
    [unreadable] = report.unreadable
    assert (unreadable.kind, unreadable.encoded_vhost) == ("queues", "")


async def test_a_half_written_file_is_removed_at_start(tmp_path: Path) -> None:
    await MetadataStore(tmp_path).put(queue("a"))
    temporary = tmp_path / "queues" / "%2f" / "a.json.tmp"
    temporary.write_bytes(b'{"sch')
    report = await MetadataStore(tmp_path).load()
    assert (report.documents, report.removed_temporaries) == ([queue("a")], 1)
    assert not temporary.exists()


async def test_a_half_written_file_that_cannot_be_removed_stops_nothing(tmp_path: Path) -> None:
    await MetadataStore(tmp_path).put(queue("a"))
    (tmp_path / "queues" / "%2f" / "a.json.tmp").write_bytes(b"")
    files = DocumentFiles(FaultyFileSystem(tmp_path, 0, errno.EACCES))
    report = await MetadataStore(tmp_path, files).load()
    assert (report.documents, report.removed_temporaries) == ([queue("a")], 0)


async def test_clearing_a_vhost_removes_all_that_is_in_it_and_nothing_else(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    kept = [Document("queues", "/", "q", {}), Document("vhosts", "", "a/b", {})]
    for document in [
        *kept,
        Document("queues", "a/b", "q", {}),
        Document("bindings", "a/b", "b", {}),
    ]:
        await store.put(document)
    DocumentFiles().write(tmp_path / "queues" / "a%2fb" / "bad.json", b"{")
    DocumentFiles().write(tmp_path / "a file beside the kinds", b"")

    await store.clear_vhost("a%2fb")

    assert sorted(await load(tmp_path), key=lambda each: each.kind) == kept
    for kind in ("queues", "bindings"):
        assert "a%2fb" not in DocumentFiles().list_names(tmp_path / kind)
    again = Document("queues", "a/b", "q", {"again": True})
    await store.put(again)
    assert again in await load(tmp_path)


async def test_clearing_a_vhost_that_has_nothing_is_done_at_once(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    await store.clear_vhost("x")
    await store.put(queue("q"))
    await store.clear_vhost("x")
    assert await load(tmp_path) == [queue("q")]


async def test_clearing_a_vhost_on_a_disk_that_fails_says_so(tmp_path: Path) -> None:
    await MetadataStore(tmp_path).put(queue("q"))
    store = MetadataStore(tmp_path, DocumentFiles(FaultyFileSystem(tmp_path, 0)))
    with pytest.raises(DocumentWriteError, match="Input/output error"):
        await store.clear_vhost("%2f")


async def test_changes_of_one_document_happen_in_the_order_of_the_calls(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path)
    deleting = store.delete("queues", "/", "q")
    putting = store.put(queue("q"))
    await putting
    await deleting
    assert await load(tmp_path) == [queue("q")]


async def test_a_directory_that_has_vanished_is_made_again_after_the_write_that_failed(
    tmp_path: Path,
) -> None:
    store = MetadataStore(tmp_path)
    await store.put(queue("a"))
    shutil.rmtree(tmp_path / "queues")

    with pytest.raises(DocumentWriteError):
        await store.put(queue("b"))
    await store.put(queue("b"))

    assert await load(tmp_path) == [queue("b")]


async def test_no_thread_is_left_when_a_store_is_closed(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = MetadataStore(tmp_path)
    await store.load()
    await asyncio.gather(*(store.put(queue(name)) for name in "abcdefgh"))
    assert set(threading.enumerate()) - before
    await store.close()
    assert set(threading.enumerate()) <= before
