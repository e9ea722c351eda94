"""The redo journal: written, torn, damaged, removed, read again."""

import struct
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from appendlog.files.filesystem import FileSystem
from offsets.errors import RedoFailedError, UnsupportedRedoError
from offsets.redo_journal import RedoJournal
from offsets.redo_reading import read_redo_journal, redo_path
from offsets.redo_round import decode_redo_round, encode_redo_round
from offsets.redo_transaction import (
    RedoSettled,
    RedoTarget,
    RedoTransaction,
    decode_transaction,
    encode_transaction,
)
from tests.offsets.redo_samples import (
    open_journal,
    read,
    transaction,
    transactions,
    write_rounds,
)

U64_MAX = (1 << 64) - 1


@st.composite
def any_transaction(draw: st.DrawFn) -> RedoTransaction:
    messages = draw(st.lists(st.binary(max_size=40), max_size=5))
    numbers = st.integers(0, len(messages))
    runs = st.tuples(numbers, numbers).filter(lambda run: run[0] < run[1])
    ranges = st.tuples(st.integers(0, U64_MAX), st.integers(0, U64_MAX)).filter(
        lambda pair: pair[0] < pair[1]
    )
    targets = st.builds(
        RedoTarget,
        st.uuids(),
        st.integers(0, U64_MAX),
        st.lists(runs, max_size=4) if messages else st.just([]),
    )
    return RedoTransaction(
        draw(st.binary(min_size=16, max_size=16)),
        messages,
        draw(st.lists(targets, max_size=3)),
        draw(st.lists(st.builds(RedoSettled, st.uuids(), st.lists(ranges, max_size=4)))),
    )


@given(st.lists(any_transaction(), max_size=4), st.integers(0, U64_MAX), st.integers(0, 1 << 31))
def test_a_round_comes_back_as_it_was(
    written: list[RedoTransaction], file_number: int, number: int
) -> None:
    octets = b"".join(encode_redo_round(file_number, number, written, written_at_ns=1))
    found = decode_redo_round(b"before" + octets + b"behind", 6)
    assert found is not None
    assert found.transactions == written
    assert (found.file_number, found.number, found.end) == (file_number, number, 6 + len(octets))


@given(any_transaction(), st.data())
def test_a_transaction_cut_or_changed_anywhere_is_refused_or_well_formed(
    written: RedoTransaction, data: st.DataObject
) -> None:
    octets = bytearray(encode_transaction(written))
    cut = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(ValueError, match=r"transaction|message|run|range"):
        decode_transaction(bytes(octets[:cut]), 0)
    octets[cut] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found, _ = decode_transaction(bytes(octets), 0)
    except ValueError:
        return
    for target in found.targets:
        found.messages_of(target)


def test_a_transaction_is_as_the_drawing_says() -> None:
    octets = encode_transaction(
        RedoTransaction(
            b"i" * 16,
            [b"abc"],
            [RedoTarget(UUID(bytes=b"t" * 16), 7, [(0, 1)])],
            [RedoSettled(UUID(bytes=b"s" * 16), [(3, 5)])],
        )
    )
    assert octets == b"".join(
        (
            b"i" * 16 + struct.pack("<IIII", 1, 1, 1, 0),
            struct.pack("<I", 3) + b"abc",
            b"t" * 16 + struct.pack("<QII", 7, 1, 0) + struct.pack("<II", 0, 1),
            b"s" * 16 + struct.pack("<II", 1, 0) + struct.pack("<QQ", 3, 5),
        )
    )


def test_a_round_is_as_the_drawing_says() -> None:
    octets = b"".join(encode_redo_round(9, 2, [transaction(1)], written_at_ns=-5))
    body = encode_transaction(transaction(1))
    covered = struct.pack("<QB3xIQIIq", 32 + len(body), 1, 1, 9, 2, 0, -5) + body
    assert octets == b"AQTX" + struct.pack("<I", crc32c(covered)) + covered


def test_a_transaction_needs_an_id_of_16_bytes() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        encode_transaction(RedoTransaction(b"i" * 15, [], [], []))


def test_messages_of_a_target_come_in_its_order() -> None:
    one = transaction(4)
    assert one.messages_of(one.targets[1]) == [b"message 4.0", b"message 4.2"]


def test_an_empty_directory_has_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "transactions")
    assert journal.recovery.transactions == []
    assert journal.last_number == 0
    journal.finish_recovery([])
    assert not (tmp_path / "transactions").exists()


def test_transactions_come_back_in_the_order_of_their_commits(tmp_path: Path) -> None:
    write_rounds(tmp_path, transactions(0, 3), transactions(3, 4))
    write_rounds(tmp_path, transactions(4, 6))
    assert read(tmp_path) == transactions(0, 6)


def test_removed_files_are_gone_and_the_others_stay(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for number in (1, 2, 5):
        journal.write(number, transactions(number, number + 1))
    journal.remove([1, 5])
    journal.remove([])
    journal.write(6, transactions(6, 7))
    assert journal.file_bytes == redo_path(tmp_path, 6).stat().st_size
    journal.close()
    assert read(tmp_path) == [transaction(2), transaction(6)]


def test_a_file_is_never_used_again(tmp_path: Path) -> None:
    write_rounds(tmp_path, transactions(0, 1))
    with pytest.raises(AssertionError):
        open_journal(tmp_path).write(1, transactions(1, 2))


def test_a_torn_round_is_not_committed_and_not_damage(tmp_path: Path) -> None:
    path = write_rounds(tmp_path, transactions(0, 2))
    whole = path.stat().st_size
    octets = write_rounds(tmp_path / "longer", transactions(0, 2), transactions(2, 4)).read_bytes()
    for size in range(whole, len(octets)):
        path.write_bytes(octets[:size])
        recovery = read_redo_journal(tmp_path, FileSystem())
        assert recovery.transactions == transactions(0, 2)
        assert recovery.torn_bytes == size - whole
        assert not recovery.damaged_files


def test_a_changed_bit_never_makes_another_transaction(tmp_path: Path) -> None:
    path = write_rounds(tmp_path, transactions(0, 1), transactions(1, 2), transactions(2, 3))
    octets = path.read_bytes()
    third = len(octets) // 3
    for position in range(len(octets)):
        changed = bytearray(octets)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        recovery = read_redo_journal(tmp_path, FileSystem())
        lost = position // third
        assert recovery.transactions == [transaction(n) for n in range(3) if n != lost]
        # The last round cannot be told from one that a crash has cut.
        assert recovery.damaged_files == ([] if lost == 2 else [path])


def test_a_round_of_another_file_is_not_believed(tmp_path: Path) -> None:
    octets = write_rounds(tmp_path, transactions(0, 1)).read_bytes()
    redo_path(tmp_path, 2).write_bytes(octets)
    recovery = read_redo_journal(tmp_path, FileSystem())
    assert recovery.transactions == transactions(0, 1)
    assert recovery.damaged_files == [redo_path(tmp_path, 2)]


def test_finishing_a_recovery_keeps_what_remains_and_the_damaged_files(tmp_path: Path) -> None:
    damaged = write_rounds(tmp_path, transactions(0, 1), transactions(1, 2))
    octets = bytearray(damaged.read_bytes())
    octets[60] ^= 1
    damaged.write_bytes(octets)
    write_rounds(tmp_path, transactions(2, 4))
    journal = open_journal(tmp_path)
    assert journal.recovery.transactions == transactions(1, 4)
    journal.finish_recovery([transaction(3)])
    assert read(tmp_path) == [transaction(3)]
    assert damaged.with_name(f"{damaged.name}.damaged").read_bytes() == octets
    journal.write(journal.last_number + 1, transactions(4, 5))
    journal.close()
    assert read(tmp_path) == [transaction(3), transaction(4)]


def test_another_version_is_refused_and_not_taken_for_damage(tmp_path: Path) -> None:
    path = write_rounds(tmp_path, transactions(0, 1))
    octets = bytearray(path.read_bytes())
    octets[16] = 2
    octets[4:8] = crc32c(bytes(octets[8:])).to_bytes(4, "little")
    path.write_bytes(octets)
    with pytest.raises(UnsupportedRedoError) as refused:
        open_journal(tmp_path)
    assert (refused.value.found, refused.value.supported) == (2, 1)


def test_what_cannot_be_read_is_an_error_and_not_an_empty_journal(tmp_path: Path) -> None:
    redo_path(tmp_path, 1).mkdir()
    with pytest.raises(RedoFailedError):
        open_journal(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RedoFailedError):
        RedoJournal.open(tmp_path / "file", FileSystem())
