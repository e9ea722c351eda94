import gc
import weakref
from collections import Counter
from pathlib import Path

import pytest

from appendlog import Append, CloseRequest, FlushRequest, Log
from appendlog.flushing.requests import MaintenanceRequest
from appendlog.flushing.write_order import (
    BATCH_OCTETS_MAX,
    CLIENT_OCTETS_MAX,
    WRITE_OCTETS,
    Batch,
    WriteOrder,
)
from tests.appendlog.builders import open_log

MIB = 1 << 20


def append_of(log: Log, octets: int = 100) -> FlushRequest:
    return FlushRequest(log, Append([bytes(octets)], 1, sync=True))


class Bench:
    """A write order, and as many logs as a test asks for."""

    def __init__(self, directory: Path, client_writes_max: int = 8) -> None:
        self.maintained: list[MaintenanceRequest] = []
        self.order = WriteOrder(self.maintained.append, client_writes_max)
        self._directory = directory
        self._count = 0

    def log(self) -> Log:
        self._count += 1
        return open_log(self._directory / str(self._count))[0]

    def logs(self, count: int) -> list[Log]:
        return [self.log() for _ in range(count)]

    def take(self) -> Batch:
        batch = self.order.take()
        assert batch is not None
        return batch

    def finish(self, batch: Batch) -> None:
        self.order.written(batch)
        self.order.done(batch)

    def written_logs(self) -> list[Log]:
        """Write all that waits, one batch at a time."""
        logs = []
        while batch := self.order.take():
            logs.append(batch.log)
            self.finish(batch)
        return logs


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_lone_log_is_the_next_after_hundreds_that_wait(bench: Bench) -> None:
    many, lone = bench.logs(500), bench.log()
    for log in many:
        bench.order.add(append_of(log), "many")
    under_way = [bench.take() for _ in range(8)]
    for _ in range(20):
        bench.order.add(append_of(lone), "lone")
        batch = bench.take()
        assert batch.log is lone
        bench.finish(batch)
        bench.finish(under_way.pop(0))
        under_way.append(bench.take())
    for batch in under_way:
        bench.finish(batch)
    assert bench.written_logs() == many[28:]


def test_one_payer_leaves_threads_for_the_next(bench: Bench) -> None:
    many, lone = bench.logs(9), bench.log()
    for log in many:
        bench.order.add(append_of(log), "many")
    under_way = [bench.take() for _ in range(8)]
    assert bench.order.waiting_count == 1
    assert bench.order.take() is None
    bench.order.add(append_of(lone), "lone")
    assert bench.order.waiting_count == 2
    last = bench.take()
    assert last.log is lone
    bench.order.written(last)
    assert bench.order.take() is None
    bench.order.written(under_way[3])
    assert bench.take().log is many[8]
    assert bench.order.waiting_count == 0


def test_large_writes_of_one_payer_follow_each_other(bench: Bench) -> None:
    many, lone = bench.logs(3), bench.log()
    for log in many:
        bench.order.add(append_of(log, 50 * MIB), "many")
    first = bench.take()
    assert bench.order.take() is None
    bench.order.add(append_of(lone, CLIENT_OCTETS_MAX - 1), "lone")
    bench.order.add(append_of(bench.log()), "lone")
    assert [bench.take().octets for _ in range(2)] == [CLIENT_OCTETS_MAX - 1, 100]
    bench.finish(first)
    assert bench.take().log is many[1]


def test_payers_share_the_octets_and_the_writes(bench: Bench) -> None:
    large, small = bench.logs(10), bench.logs(400)
    for log in large:
        bench.order.add(append_of(log, 5 * MIB), "large")
    for log in small:
        bench.order.add(append_of(log, 0), "small")
    small_set = set(small)
    served = Counter[bool]()
    for log in bench.written_logs():
        served[log in small_set] += 1
        large_octets = served[False] * (WRITE_OCTETS + 5 * MIB)
        if served[False] < len(large) and served[True] < len(small):
            assert abs(large_octets - served[True] * WRITE_OCTETS) <= WRITE_OCTETS + 5 * MIB
    assert served == {False: 10, True: 400}


def test_a_payer_gains_nothing_by_coming_back(bench: Bench) -> None:
    greedy, steady = bench.logs(2), bench.logs(40)
    bench.order.add(append_of(greedy[0], 5 * MIB), "greedy")
    for log in steady:
        bench.order.add(append_of(log), "steady")
    bench.finish(bench.take())
    bench.order.add(append_of(greedy[1]), "greedy")
    order = bench.written_logs()
    # As many writes of the other client as its large one counts.
    assert order.index(greedy[1]) == 21


def test_a_payer_that_waits_for_nothing_saves_nothing_up(bench: Bench) -> None:
    early, steady = bench.logs(20), bench.logs(60)
    bench.order.add(append_of(early[0]), "early")
    for log in steady[:40]:
        bench.order.add(append_of(log), "steady")
    for _ in range(30):
        bench.finish(bench.take())
    for log in early[1:]:
        bench.order.add(append_of(log), "early")
    nexts = []
    for _ in range(10):
        batch = bench.take()
        nexts.append(batch.log in steady)
        bench.finish(batch)
    assert nexts.count(True) == 5


def test_a_log_is_in_one_batch_at_a_time_and_keeps_its_order(bench: Bench) -> None:
    log = bench.log()
    requests = [append_of(log) for _ in range(4)]
    bench.order.add(requests[0], "a")
    first = bench.take()
    for request in requests[1:]:
        bench.order.add(request, "b")
    assert bench.order.take() is None
    bench.order.written(first)
    assert bench.order.take() is None
    assert not bench.order.is_empty
    bench.order.done(first)
    second = bench.take()
    assert (first.requests, second.requests) == (requests[:1], requests[1:])
    bench.finish(second)
    assert bench.order.is_empty


def test_a_batch_is_bounded(bench: Bench) -> None:
    log = bench.log()
    requests = [append_of(log, 3 * MIB) for _ in range(10)]
    for request in requests:
        bench.order.add(request, None)
    batches = []
    while batch := bench.order.take():
        batches.append(batch)
        bench.finish(batch)
    assert [request for batch in batches for request in batch.requests] == requests
    assert max(batch.octets for batch in batches) < BATCH_OCTETS_MAX + 3 * MIB


def test_a_batch_takes_no_further_append_from_16_mib_on(bench: Bench) -> None:
    log, chunk = bench.log(), bytes(MIB)
    for _ in range(40):
        bench.order.add(FlushRequest(log, Append([chunk], 1, sync=True)), None)
    sizes = []
    while batch := bench.order.take():
        sizes.append(len(batch.requests))
        bench.finish(batch)
    assert sizes == [16, 16, 8]


def test_other_requests_wait_for_the_appends_before_them(bench: Bench) -> None:
    log, other = bench.logs(2)
    closes = [CloseRequest(log), CloseRequest(other)]
    bench.order.add(append_of(log), None)
    bench.order.add(closes[0], None)
    bench.order.add(closes[1], None)
    assert bench.maintained == [closes[1]]
    batch = bench.take()
    bench.order.written(batch)
    assert bench.maintained == [closes[1]]
    bench.order.done(batch)
    assert bench.maintained == [closes[1], closes[0]]
    assert bench.order.is_empty


def test_payers_with_nothing_to_write_are_forgotten(bench: Bench) -> None:
    class Client:
        pass

    clients = [Client() for _ in range(20)]
    known = [weakref.ref(client) for client in clients]
    for client in clients:
        bench.order.add(append_of(bench.log(), 5 * MIB), client)
    bench.written_logs()
    del client
    clients.clear()
    gc.collect()
    assert [each() for each in known] == [None] * 20
