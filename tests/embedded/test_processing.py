import signal
import threading
from pathlib import Path

import pytest

from appendlog import LogWriter
from offsets import (
    Consumer,
    LogRoot,
    OnError,
    ProcessOptions,
    dead_letters_to,
)
from offsets.consuming.batch import ConsumedBatch
from tests.embedded.consumers import consumer, drain, fill
from tests.embedded.processes import Process


def options(**chosen: object) -> ProcessOptions:
    """Return options that wait for nothing."""
    quick = {"poll_interval_seconds": 0.0, "retry_delay_seconds": 0.0, "until_idle": True}
    return ProcessOptions(**{**quick, **chosen})  # type: ignore[arg-type]


class Failing:
    """A handler that fails for some payloads, so many times; it notes what it was given."""

    def __init__(self, *payloads: bytes, times: int = 1 << 30) -> None:
        self.payloads = set(payloads)
        self.times = times
        self.given: list[list[bytes]] = []

    def __call__(self, batch: ConsumedBatch) -> None:
        self.given.append(batch.payloads)
        if self.payloads & set(batch.payloads) and self.times:
            self.times -= 1
            raise RuntimeError("no")


def test_every_batch_is_handled_and_acked(root: LogRoot) -> None:
    fill(root, "events-0000", 5)
    fill(root, "events-0001", 4)
    handler = Failing()
    seen: list[int] = []
    with consumer(root, pattern="events-*") as reader:
        chosen = options(batch_size=3, on_batch=lambda batch: seen.append(len(batch)))
        statistics = reader.process(handler, chosen)
        assert (statistics.batches, statistics.records, statistics.retries) == (4, 9, 0)
        assert sorted(seen) == sorted(map(len, handler.given)) == [1, 2, 3, 3]
        assert reader.lag().total == 0
        assert reader.statistics().checkpoint_age_seconds is not None


def test_a_batch_that_fails_is_tried_again_and_then_acked(root: LogRoot) -> None:
    fill(root, "events", 4)
    handler = Failing(b"1", times=2)
    with consumer(root) as reader:
        statistics = reader.process(handler, options(batch_size=2, max_retries=2))
    assert handler.given == [[b"0", b"1"]] * 3 + [[b"2", b"3"]]
    assert (statistics.batches, statistics.retries, statistics.error) == (2, 2, None)


def test_a_batch_that_fails_for_good_ends_the_run_and_comes_again(root: LogRoot) -> None:
    fill(root, "events", 6)
    with consumer(root) as reader:
        statistics = reader.process(Failing(b"2"), options(batch_size=2, max_retries=1))
        assert (statistics.batches, statistics.retries) == (1, 1)
        assert str(statistics.error) == "no"
        assert statistics.failed_batch is not None
        assert statistics.failed_batch.offsets == [2, 3]
    with consumer(root) as reader:
        assert drain(reader) == {"events": [2, 3, 4, 5]}


def test_a_batch_that_fails_for_good_can_be_skipped(root: LogRoot) -> None:
    fill(root, "events", 6)
    with consumer(root) as reader:
        chosen = options(batch_size=2, max_retries=0, on_error=OnError.SKIP)
        statistics = reader.process(Failing(b"2"), chosen)
        assert (statistics.batches, statistics.skipped_records) == (2, 2)
        assert reader.lag().total == 0


def test_what_fails_can_go_to_a_log_of_its_own(root: LogRoot) -> None:
    root.log("events").append_batch([b"good", b"bad", b"good"], b"key", {"n": 1})
    root.sync()
    dead: LogWriter = root.log("dead")
    with consumer(root, pattern="events") as reader:
        chosen = options(is_single=True, max_retries=0, on_error=dead_letters_to(dead))
        statistics = reader.process(Failing(b"bad"), chosen)
        assert (statistics.records, statistics.skipped_records) == (2, 1)
        assert reader.lag().total == 0
    with consumer(root, pattern="dead") as reader:
        batch = reader.poll()
        assert batch is not None
        (record,) = batch
        assert (record.payload, record.key) == (b"bad", b"key")
        assert record.headers == {
            "n": 1,
            "x-error": "RuntimeError: no",
            "x-log": "events",
            "x-offset": 1,
        }


def test_a_function_decides_by_what_failed(root: LogRoot) -> None:
    fill(root, "events", 4)
    asked: list[tuple[list[int], str]] = []

    def decide(batch: ConsumedBatch, error: Exception) -> OnError:
        asked.append((batch.offsets, str(error)))
        return OnError.SKIP if batch.offsets == [1] else OnError.STOP

    with consumer(root) as reader:
        chosen = options(batch_size=1, max_retries=0, on_error=decide)
        statistics = reader.process(Failing(b"1", b"3"), chosen)
    assert asked == [([1], "no"), ([3], "no")]
    assert (statistics.records, statistics.skipped_records) == (2, 1)


@pytest.mark.parametrize("is_single", [False, True])
def test_what_a_run_did_not_finish_comes_again_in_the_next_one(
    root: LogRoot, is_single: bool
) -> None:
    """The same consumer went on behind the batch that had failed."""
    fill(root, "events", 5)
    chosen = options(batch_size=3, is_single=is_single, max_retries=0)
    with consumer(root) as reader:
        assert reader.process(Failing(b"1"), chosen).error is not None
        handler = Failing()
        assert reader.process(handler, chosen).error is None
        first = [b"1", b"2"] if is_single else [b"0", b"1", b"2"]
        assert [each for batch in handler.given for each in batch] == [*first, b"3", b"4"]
        assert reader.lag().total == 0


def test_what_an_interrupt_ended_comes_again_in_the_next_run(root: LogRoot) -> None:
    fill(root, "events", 4)

    def interrupted(batch: ConsumedBatch) -> None:
        if batch.offsets == [2]:
            raise KeyboardInterrupt

    chosen = options(batch_size=4, is_single=True)
    with consumer(root) as reader:
        with pytest.raises(KeyboardInterrupt):
            reader.process(interrupted, chosen)
        handler = Failing()
        reader.process(handler, chosen)
    assert handler.given == [[b"2"], [b"3"]]


def test_single_records_that_a_stop_left_come_again(root: LogRoot) -> None:
    fill(root, "events", 4)
    with consumer(root) as reader:
        statistics = reader.process(lambda _: reader.stop(), options(is_single=True))
        assert statistics.records == 1
        assert reader.lag().total == 3
    with consumer(root) as reader:
        assert drain(reader) == {"events": [1, 2, 3]}


def test_single_records_are_acked_one_by_one(root: LogRoot) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        statistics = reader.process(Failing(b"3"), options(is_single=True, max_retries=0))
        assert statistics.records == 3
    with consumer(root) as reader:
        assert drain(reader) == {"events": [3, 4]}


def test_without_auto_ack_the_handler_acks(root: LogRoot) -> None:
    fill(root, "events", 4)
    with consumer(root) as reader:
        chosen = options(auto_ack=False)
        reader.process(lambda batch: reader.ack(batch.log, batch.offsets[1]), chosen)
    with consumer(root) as reader:
        assert drain(reader) == {"events": [0, 2, 3]}


def test_what_is_no_exception_ends_the_run_at_once_and_keeps_what_was_acked(
    root: LogRoot,
) -> None:
    fill(root, "events", 4)

    def handler(batch: ConsumedBatch) -> None:
        if batch.offsets == [2]:
            raise KeyboardInterrupt

    reader = consumer(root)
    with pytest.raises(KeyboardInterrupt):
        reader.process(handler, options(batch_size=1))
    reader._release()
    with consumer(root) as reader:
        assert drain(reader) == {"events": [2, 3]}


def test_a_run_that_waits_is_stopped_by_another_thread(root: LogRoot) -> None:
    fill(root, "events", 1)
    handled = threading.Event()
    with consumer(root) as reader:

        def stop() -> None:
            handled.wait()
            reader.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        chosen = ProcessOptions(poll_interval_seconds=60.0, on_batch=lambda _: handled.set())
        statistics = reader.process(lambda batch: None, chosen)
        stopper.join()
    assert statistics.records == 1


def test_a_run_that_waits_for_a_retry_is_stopped_and_the_batch_comes_again(
    root: LogRoot,
) -> None:
    fill(root, "events", 1)
    reader = consumer(root)

    def handler(batch: ConsumedBatch) -> None:
        reader.stop()
        raise RuntimeError("no")

    statistics = reader.process(handler, ProcessOptions(retry_delay_seconds=60.0))
    assert (statistics.records, statistics.retries, statistics.error) == (0, 1, None)
    reader.close()
    with consumer(root) as again:
        assert drain(again) == {"events": [0]}


def test_a_run_goes_on_with_what_another_process_appends_until_a_signal(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path) as root, Process(PROCESS_UNTIL_SIGTERM, tmp_path) as worker:
        assert worker.line() == "ready"
        for number in range(3):
            root.append("events", b"%d" % number)
            root.sync()
            assert worker.line() == f"[{number}]"
        worker.signal(signal.SIGTERM)
        assert worker.line() == "3 records"
        assert worker.wait() == 0
    with Consumer(tmp_path, "g") as reader:
        assert reader.lag().total == 0


PROCESS_UNTIL_SIGTERM = """
import signal
from offsets import Consumer, ProcessOptions
with Consumer(root, "g", discovery_interval_seconds=0.02) as consumer:
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    print("ready", flush=True)
    done = consumer.process(lambda batch: print(batch.offsets, flush=True))
print(done.records, "records", flush=True)
"""


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"poll_interval_seconds": -1.0},
        {"max_retries": -1},
        {"retry_delay_seconds": -1.0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_option_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ProcessOptions(**wrong)  # type: ignore[arg-type]
