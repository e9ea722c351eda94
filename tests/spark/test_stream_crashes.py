"""Any course of events: appends, gaps, new queues, other limits, crashes at any step."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from appendlog.spark.source.stream_reader import LogStreamReader
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.stream_engine import STEPS, CrashError, Query, Row, reader_of

NAMES = st.sampled_from(["a", "b", "c"])


class AnyCourse(RuleBasedStateMachine):
    """A query over all queues of a data directory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        (self.path / "metadata").mkdir()
        self.queues: dict[str, StoredQueue] = {}
        self.expected: dict[str, list[int]] = {}
        self.limits: dict[str, str] = {}
        self.query = Query(self.reader)
        self.starting = "earliest"

    @initialize(starting=st.sampled_from(["earliest", "latest"]), count=st.integers(0, 30))
    def begin(self, starting: str, count: int) -> None:
        self.starting = starting
        self.append("a", count)
        if starting == "latest":
            # A first batch without rows: from here on the stream promises everything.
            assert self.query.run_available_now() == [0]
            self.expected["a"].clear()

    def reader(self) -> LogStreamReader:
        return reader_of(
            self.path,
            subscribePattern="[a-c]",
            startingOffsets=self.starting,
            maxBytesPerPartition="500",
            **self.limits,
        )

    @rule(queue=NAMES, count=st.integers(0, 60), step=st.integers(1, 20))
    def append(self, queue: str, count: int, step: int = 10) -> None:
        if queue not in self.queues:
            self.queues[queue] = store_queue(self.path, queue, segment_bytes=2048)
            self.expected[queue] = []
        log = self.queues[queue].log
        self.expected[queue] += range(log.log_end_offset, log.log_end_offset + count)
        self.queues[queue].append(plain_messages(count), step=step)

    @rule(queue=NAMES, count=st.integers(1, 200))
    def skip(self, queue: str, count: int) -> None:
        if queue in self.queues:
            self.queues[queue].skip(count)

    @rule(offsets_max=st.none() | st.integers(1, 50), bytes_max=st.none() | st.integers(1, 5000))
    def limit(self, offsets_max: int | None, bytes_max: int | None) -> None:
        limits = {"maxOffsetsPerTrigger": offsets_max, "maxBytesPerTrigger": bytes_max}
        self.limits = {name: str(limit) for name, limit in limits.items() if limit is not None}

    @rule(batch=st.integers(0, 3), step=st.sampled_from(STEPS))
    def run_and_crash(self, batch: int, step: str) -> None:
        try:
            self.query.run_available_now((batch, step))
        except CrashError:
            return
        self.is_complete()

    @rule()
    def run(self) -> None:
        self.query.run_available_now()
        self.is_complete()

    def is_complete(self) -> None:
        for queue, expected in self.expected.items():
            assert self.read_of(queue) == expected

    @invariant()
    def rows_are_the_beginning_of_each_log_once(self) -> None:
        for queue, expected in self.expected.items():
            rows = self.read_of(queue)
            assert rows == expected[: len(rows)]

    def read_of(self, queue: str) -> list[int]:
        rows: list[Row] = self.query.rows
        return [offset for name, offset in rows if name == queue]

    def teardown(self) -> None:
        for stored in self.queues.values():
            stored.close()
        self.folder.cleanup()


TestAnyCourse = AnyCourse.TestCase
TestAnyCourse.settings = settings(
    max_examples=settings().max_examples // 5, stateful_step_count=15, deadline=None
)
