"""A start applies committed transactions to any log, as often as it is repeated."""

from pathlib import Path
from uuid import UUID

import pytest

from amqp_server.recovery import redo
from amqp_server.recovery.redo import (
    QueueRedo,
    RedoPublish,
    carry_out_again,
    redo_by_queue,
    remaining,
)
from appendlog import Append, Log, LogFailedError, encode_chunk
from offsets import RedoSettled, RedoTarget, RedoTransaction, Settlement
from tests.appendlog.builders import SALT, append, message, messages, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem

ONE, TWO = b"1" * 16, b"2" * 16
HERE, GONE = UUID(int=1), UUID(int=2)


def carried_out(log: Log, queue: QueueRedo) -> tuple[int, Settlement]:
    settlement = Settlement()
    return carry_out_again(log, settlement, queue), settlement


def test_redo_appends_only_messages_that_the_log_does_not_have(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    append(log, 0, 3)
    log.append(Append([encode_chunk(messages(3, 5), 3, None, 1, None, SALT, ONE)], 5, sync=True))
    publishes = [RedoPublish(ONE, 3, messages(3, 9)), RedoPublish(TWO, 3, messages(9, 11))]
    assert carried_out(log, QueueRedo(publishes))[0] == 6
    assert log.recovery_point == log.log_end_offset == 11
    assert read_all(log) == dict(enumerate(messages(0, 11)))
    assert log.transaction_counts(0) == {ONE: 6, TWO: 2}
    assert carried_out(log, QueueRedo(publishes))[0] == 0
    again, _ = open_log(tmp_path / "log")
    assert carried_out(again, QueueRedo(publishes))[0] == 0


def test_each_transaction_is_looked_for_from_where_the_first_of_them_began(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    for start, end, transaction in ((0, 3, ONE), (3, 5, TWO)):
        chunk = encode_chunk(messages(start, end), start, None, 1, None, SALT, transaction)
        log.append(Append([chunk], end, sync=True))
    publishes = [RedoPublish(ONE, 0, messages(0, 3)), RedoPublish(TWO, 3, messages(3, 5))]
    assert carried_out(log, QueueRedo(publishes))[0] == 0
    assert read_all(log) == dict(enumerate(messages(0, 5)))


def test_large_transactions_become_chunks_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redo, "CHUNK_BYTES_MAX", 300)
    sent = [message(number, 400 if number == 4 else 50) for number in range(20)]
    log, _ = open_log(tmp_path / "log")
    carried_out(log, QueueRedo([RedoPublish(ONE, 0, sent)]))
    assert read_all(log) == dict(enumerate(sent))
    assert log.transaction_counts(0) == {ONE: 20}


def test_an_interrupted_redo_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redo, "CHUNK_BYTES_MAX", 100)
    queue = QueueRedo([RedoPublish(ONE, 0, messages(0, 10)), RedoPublish(TWO, 0, messages(10, 12))])
    for fail_at in range(100):
        directory = tmp_path / str(fail_at)
        directory.mkdir()
        filesystem = FaultyFileSystem(directory, fail_at)
        is_whole = False
        try:
            log, _ = open_log(directory / "log", filesystem)
            carried_out(log, queue)
            is_whole = True
        except LogFailedError:
            pass
        filesystem.power_cut()
        log, _ = open_log(directory / "log")
        carried_out(log, queue)
        assert read_all(log) == dict(enumerate(messages(0, 12)))
        if is_whole:
            assert fail_at > 10
            return
    raise AssertionError


def test_settled_ranges_are_settled_and_never_beyond_the_log(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "log")
    append(log, 0, 10)
    _, settlement = carried_out(log, QueueRedo([], [(0, 2), (5, 7), (9, 20), (30, 40)]))
    assert settlement.unsettled_ranges(0, 50) == [(2, 5), (7, 9), (10, 50)]


def test_transactions_are_sorted_by_queue_in_the_order_of_their_commits() -> None:
    first = RedoTransaction(
        ONE,
        [b"a", b"b", b"c"],
        [RedoTarget(HERE, 5, [(0, 1), (2, 3)]), RedoTarget(GONE, 6, [(1, 2)])],
        [RedoSettled(GONE, [(0, 1)])],
    )
    second = RedoTransaction(TWO, [b"d"], [RedoTarget(HERE, 7, [(0, 1)])], [])
    assert redo_by_queue([first, second]) == {
        HERE: QueueRedo([RedoPublish(ONE, 5, [b"a", b"c"]), RedoPublish(TWO, 7, [b"d"])]),
        GONE: QueueRedo([RedoPublish(ONE, 6, [b"b"])], [(0, 1)]),
    }
    assert remaining([first, second], lambda each: each == GONE) == [
        RedoTransaction(
            ONE, first.messages, [RedoTarget(GONE, 6, [(1, 2)])], [RedoSettled(GONE, [(0, 1)])]
        )
    ]
    assert remaining([first, second], lambda _: False) == []


def test_a_log_that_lost_unconfirmed_messages_gets_a_transaction_once(tmp_path: Path) -> None:
    """Carried out again below the hint, it was not found by the next start, and came twice."""
    log, _ = open_log(tmp_path / "log")
    append(log, 0, 3)
    queue = QueueRedo([RedoPublish(ONE, 6, messages(6, 8))])
    appended, settlement = carried_out(log, queue)
    assert appended == 2
    assert settlement.unsettled_ranges(0, 8) == [(0, 3), (6, 8)]
    assert read_all(log) == dict(enumerate(messages(0, 3))) | {6: message(6), 7: message(7)}
    again, _ = open_log(tmp_path / "log")
    assert carried_out(again, queue)[0] == 0
