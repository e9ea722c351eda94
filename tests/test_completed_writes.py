import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from amqp_server.upkeep.completed_writes import CompletedWrites
from appendlog import CloseRequest, FlushResult, Log
from tests.appendlog.builders import open_log
from tests.limits import HANG_SECONDS


def closed(log: Log) -> FlushResult:
    return FlushResult(CloseRequest(log))


def test_results_that_arrive_before_the_loop_runs_are_one_call(tmp_path: Path) -> None:
    calls: list[Callable[[], None]] = []
    taken: list[Sequence[FlushResult]] = []
    writes = CompletedWrites(calls.append, taken.append)
    results = [closed(open_log(tmp_path / str(number))[0]) for number in range(5)]
    writes.add(results[:2])
    writes.add(results[2:3])
    assert (len(calls), taken) == (1, [])
    calls.pop()()
    assert taken == [results[:3]]
    writes.add(results[3:])
    calls.pop()()
    assert (taken, calls) == ([results[:3], results[3:]], [])


def test_results_from_several_threads_all_arrive_once(tmp_path: Path) -> None:
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    taken: list[FlushResult] = []
    writes = CompletedWrites(calls.put, taken.extend)
    log, _ = open_log(tmp_path)
    results = [[closed(log) for _ in range(500)] for _ in range(3)]

    def add(mine: list[FlushResult]) -> None:
        for result in mine:
            writes.add([result])

    threads = [threading.Thread(target=add, args=(mine,)) for mine in results]
    for thread in threads:
        thread.start()
    while len(taken) < 1500:
        calls.get(timeout=HANG_SECONDS)()
    for thread in threads:
        thread.join()
    for mine in results:
        own = set(map(id, mine))
        assert [each for each in taken if id(each) in own] == mine


def test_results_for_a_closed_loop_are_dropped(tmp_path: Path) -> None:
    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    CompletedWrites(refuse, lambda _: None).add([closed(open_log(tmp_path)[0])])
