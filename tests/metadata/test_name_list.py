"""Wherever a crash cuts, a list of names misses no document wrongly and hides no loss."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.name_list import APPENDED_MIN, NAMES_NAME, NameList, place_of_path, read_names
from metadata.paths import place_of
from metadata.store import MetadataStore
from tests.crash.full_disk import FullDisk
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError

KINDS = frozenset({"users"})


def user(name: str, number: int = 0) -> Document:
    return Document("users", "", name, {"number": number})


def names(*users: str) -> set[tuple[str, str, str]]:
    return {place_of("users", "", each) for each in users}


def open_store(root: Path, filesystem: FaultyFileSystem | None = None) -> MetadataStore:
    files = None if filesystem is None else DocumentFiles(filesystem)
    return MetadataStore(root, files, KINDS)


def listed(root: Path) -> set[tuple[str, str, str]]:
    stored = read_names(root, DocumentFiles())
    assert stored is None or not stored.damage
    return set() if stored is None else stored.places


def found(root: Path) -> set[tuple[str, str, str]]:
    return {place_of_path(path) for path in root.glob("users/*/*.json")}


async def missing(root: Path) -> list[str]:
    """Return the names that a load misses; it does not list anything anew."""
    report = await MetadataStore(root).load(believes_names=True)
    assert all(each.is_missing for each in report.unreadable)
    return [each.encoded_name or each.kind for each in report.unreadable]


async def changes(store: MetadataStore) -> AsyncIterator[set[tuple[str, str, str]]]:
    """Make changes; yield after each that was acknowledged what there is then."""
    await store.load(believes_names=True)
    await store.put(user("a"))
    yield names("a")
    await store.put(user("b"))
    yield names("a", "b")
    await store.put(user("a", 1))
    yield names("a", "b")
    # Beside a change that is not listed.
    await asyncio.gather(
        store.delete("users", "", "a"), store.put(Document("queues", "/", "q", {}))
    )
    yield names("b")
    batch = store.open_batch()
    for name in ("c", "d"):
        batch.put(user(name))
    await batch.commit()
    await batch.finished()
    yield names("b", "c", "d")
    await store.delete("users", "", "c")
    yield names("b", "d")
    await store.put(user("a", 2))
    yield names("a", "b", "d")


async def run_until_stopped(
    root: Path, filesystem: FaultyFileSystem
) -> tuple[set[tuple[str, str, str]], bool]:
    """Return what there was after the last change that was acknowledged, and whether all were."""
    last: set[tuple[str, str, str]] = set()
    count = 0
    with suppress(StoppedError, ExceptionGroup):
        async for now in changes(open_store(root, filesystem)):
            last = now
            count += 1
    return last, count == 7


@pytest.mark.crash
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
async def test_a_power_cut_at_any_operation_misses_nothing_wrongly_and_hides_no_loss(
    tmp_path: Path, seed: int | None
) -> None:
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        top.mkdir()
        root = top / "metadata"
        filesystem = FaultyFileSystem(top, stop_at, StoppedError())
        acknowledged, is_done = await run_until_stopped(root, filesystem)
        filesystem.end_process()
        filesystem.power_cut(None if seed is None else random.Random(f"{seed} {stop_at}"))
        assert await missing(root) == [], stop_at
        # A batch that is decided is carried out by the load.
        store = open_store(root)
        await store.load(believes_names=True)
        await store.write_names()
        assert listed(root) == found(root)
        # Whatever was acknowledged, and is not being deleted now, is missed when it is gone.
        kept = found(root) & acknowledged
        await MetadataStore(root).put(Document("queues", "/", "other", {}))
        for kind, vhost, name in kept:
            (root / kind / vhost / name).unlink()
        assert set(await missing(root)) == {name.removesuffix(".json") for _, _, name in kept}
        if is_done:
            assert stop_at > 40
            return
    raise AssertionError


@pytest.mark.crash
async def test_an_acknowledged_document_is_listed_before_any_load(tmp_path: Path) -> None:
    """The next start must not be what lists it: the loss may come before that."""
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        top.mkdir()
        root = top / "metadata"
        filesystem = FaultyFileSystem(top, stop_at, StoppedError())
        acknowledged, is_done = await run_until_stopped(root, filesystem)
        filesystem.end_process()
        filesystem.power_cut()
        # A change that was under way may have begun to remove one of them.
        assert len(acknowledged - listed(root)) <= 1
        assert listed(root) <= found(root) | names("c", "d")
        if is_done:
            assert acknowledged == listed(root)
            return
    raise AssertionError


@pytest.mark.parametrize("failing", [1, 3])
async def test_a_disk_error_at_any_operation_leaves_a_list_that_is_right(
    tmp_path: Path, failing: int
) -> None:
    for fail_at in range(1000):
        top = tmp_path / str(fail_at)
        top.mkdir()
        root = top / "metadata"
        filesystem = FaultyFileSystem(
            top, fail_at, OSError(errno.EIO, "refused"), failing_operations=failing
        )
        store = open_store(root, filesystem)
        await store.load(believes_names=True)
        is_refused = False
        expected: set[str] = set()
        for name in ("a", "b", "c"):
            try:
                await store.put(user(name))
                expected.add(name)
            except DocumentWriteError:
                is_refused = True
        with suppress(DocumentWriteError):
            await store.delete("users", "", "b")
            expected.discard("b")
        for name in ("b", "d"):
            with suppress(DocumentWriteError):
                await store.put(user(name))
                expected.add(name)
        await store.close()
        # Nothing is missed wrongly, and what was acknowledged is listed.
        assert await missing(root) == []
        assert names(*expected) <= listed(root)
        if not is_refused and fail_at > 20:
            return
    raise AssertionError


async def test_a_missed_document_stays_missed_until_it_is_written_or_removed(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await store.load()
    for name in ("a", "b", "c"):
        await store.put(user(name))
    for name in ("a", "b"):
        (tmp_path / "users" / "%" / f"{name}.json").unlink()
    for _ in range(2):
        store = open_store(tmp_path)
        report = await store.load(believes_names=True, expects_names=True)
        await store.write_names()
        assert [each.encoded_name for each in report.unreadable] == ["a", "b"]
        assert [each.reason for each in report.unreadable] == ["missing, but names.list has it"] * 2
    await store.put(user("a"))
    await store.delete("users", "", "b")
    assert await missing(tmp_path) == []


async def test_a_lost_or_damaged_list_is_reported_and_written_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.load()
    await store.put(user("a"))
    path = tmp_path / NAMES_NAME
    content = path.read_bytes()
    for damage in (None, content[:30], content.replace(b"a.json", b"b.json")):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        store = open_store(tmp_path)
        report = await store.load(believes_names=True, expects_names=True)
        await store.write_names()
        assert [each.kind for each in report.unreadable] == [NAMES_NAME]
        assert listed(tmp_path) == names("a")
        assert await missing(tmp_path) == []


async def test_a_list_that_another_program_has_passed_by_is_not_believed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.load()
    for name in ("a", "b"):
        await store.put(user(name))
    (tmp_path / "users" / "%" / "a.json").unlink()
    store = open_store(tmp_path)
    report = await store.load()
    await store.write_names()
    assert report.unreadable == []
    assert await missing(tmp_path) == []


async def test_a_deleted_virtual_host_takes_its_names_along(tmp_path: Path) -> None:
    store = MetadataStore(tmp_path, None, frozenset({"policies"}))
    await store.load()
    for vhost in ("a", "b"):
        await store.put(Document("policies", vhost, "p", {}))
    await store.clear_vhost("a")
    assert listed(tmp_path) == {("policies", "b", "p.json")}


def test_every_flipped_byte_is_found_or_takes_only_the_last_record(tmp_path: Path) -> None:
    files = DocumentFiles()
    written = NameList(tmp_path, files, KINDS)
    paths = [tmp_path / "users" / "%" / f"{name}.json" for name in "abcd"]
    written.add(paths[:2])
    written.add(paths[2:3])
    written.remove(paths[:1])
    written.add(paths[3:])
    path = tmp_path / NAMES_NAME
    content = path.read_bytes()
    stored = read_names(tmp_path, files)
    assert stored is not None
    assert stored.places == names("b", "c", "d")
    last = content.rindex(b"record ")
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        after = read_names(tmp_path, files)
        assert after is not None
        if at < last:
            assert after.damage, at
        else:
            assert not after.damage
            assert after.places in (names("b", "c"), names("b", "c", "d"))
            assert after.end in (0, len(content))
    path.write_bytes(content)


def test_a_list_does_not_grow_with_the_number_of_changes(tmp_path: Path) -> None:
    written = NameList(tmp_path, DocumentFiles(), KINDS)
    paths = [tmp_path / "users" / "%" / f"{number}.json" for number in range(600)]
    for _ in range(9):
        written.add(paths)
        written.remove(paths[1:])
    assert listed(tmp_path) == names("0")
    assert (tmp_path / NAMES_NAME).stat().st_size < 40 * (APPENDED_MIN + 700)


@pytest.mark.parametrize("failing", [1, 3])
async def test_what_is_discarded_is_not_missed_whatever_the_disk_refuses(
    tmp_path: Path, failing: int
) -> None:
    for after in range(100):
        root = tmp_path / str(after) / "metadata"
        filesystem = FaultyFileSystem(
            tmp_path, None, OSError(errno.EIO, "refused"), failing_operations=failing
        )
        root.parent.mkdir()
        store = open_store(root, filesystem)
        await store.put(user("a"))
        await store.put(user("kept"))
        filesystem.fail_at = len(filesystem.operations) + after
        try:
            await store.discard("users", "", "a")
        except DocumentWriteError:
            is_refused = True
        else:
            is_refused = False
        await store.close()
        assert await missing(root) == []
        if not is_refused:
            assert found(root) == listed(root) == names("kept")
            assert after > 2
            return
    raise AssertionError


def test_other_kinds_are_not_listed(tmp_path: Path) -> None:
    written = NameList(tmp_path, DocumentFiles(), KINDS)
    written.add([tmp_path / "queues" / "%2f" / "q.json"])
    assert not (tmp_path / NAMES_NAME).exists()


async def test_a_refused_deletion_of_what_was_never_there_is_no_loss(tmp_path: Path) -> None:
    """It is in one round with a deletion for which the list has no room."""
    disk = FullDisk(tmp_path)
    root = tmp_path / "metadata"
    store = MetadataStore(root, DocumentFiles(disk), KINDS)
    await store.put(user("a"))
    disk.full = NAMES_NAME
    deletions = (store.delete("users", "", name) for name in ("a", "never"))
    outcomes = await asyncio.gather(*deletions, return_exceptions=True)
    assert [type(each) for each in outcomes] == [DocumentWriteError] * 2
    disk.full = None
    await store.put(user("b"))
    await store.close()
    assert listed(root) == found(root) == names("a", "b")
    assert await missing(root) == []
