"""Rates and past values, as the clock of the test turns."""

from __future__ import annotations

import asyncio

from pamqp.commands import Queue

from amqp_server.management.http.ranges import Range, details
from amqp_server.management.mirror import Mirror
from amqp_server.management.mirror.overview import Overview
from amqp_server.management.mirror.row import Row, Ticks
from amqp_server.management.mirror.series import OBJECTS, TOTALS
from amqp_server.management.mirror.table import Kind, Table
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.management.mirror.conftest import BEGIN_SECONDS, Observed, TurnedTime

PUBLISH = "message_stats.publish"


def a_row(*, is_new: bool = True) -> tuple[Row, Ticks]:
    ticks = Ticks()
    ticks.last_seconds = BEGIN_SECONDS
    return Row(ticks, OBJECTS, is_new=is_new), ticks


def change(row: Row, ticks: Ticks, publish: int, messages: int = 0) -> None:
    """Five seconds later the object has these counters."""
    row.begin_change()
    row.fields = {"message_stats": {"publish": publish}, "messages": messages}
    ticks.last_seconds += 5
    row.sample()


async def test_rates_of_a_real_queue(observed: Observed) -> None:
    with connect(observed.server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        await observed.tick()
        for count in (10, 20, 0):
            for _ in range(count):
                client.publish(b"hello", "q")
            client.ready_count("q")
            await observed.tick()
            row = observed.mirror.queues["/", "q"]
            assert row.rate(PUBLISH) == count / 5
            assert row.rate("messages") == count / 5
            assert observed.mirror.vhosts["/"].rate("messages_ready") == count / 5
        samples = row.samples(PUBLISH, 20, 5)
        assert [value for _, value in samples.samples] == [30, 30, 10, 0, 0]
        assert samples.samples[0][0] == observed.time.now_seconds * 1000
        assert samples.avg_rate == 30 / 20
        assert samples.avg == 70 / 5


def test_a_row_says_when_its_first_sample_was_taken() -> None:
    row, ticks = a_row()
    change(row, ticks, 10)
    assert row.first_seconds == BEGIN_SECONDS + 5 == ticks.last_seconds
    change(row, ticks, 20)
    assert row.first_seconds == BEGIN_SECONDS + 5
    # Without a sample of anything nothing is known; then it is when all samples began.
    ticks = Ticks()
    older = Row(ticks, OBJECTS, is_new=False)
    assert older.first_seconds == 0
    ticks.first_seconds = ticks.last_seconds = BEGIN_SECONDS
    assert older.first_seconds == BEGIN_SECONDS


async def test_a_mirror_says_when_its_samples_began(observed: Observed) -> None:
    began = observed.time.now_seconds
    with connect(observed.server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="first"), Queue.DeclareOk)
        await observed.tick()
        first_seconds = observed.time.now_seconds
        client.call(Queue.Declare(queue="second"), Queue.DeclareOk)
        await observed.tick()
        assert first_seconds > began
        rows = observed.mirror.queues
        assert rows["/", "first"].first_seconds == first_seconds
        assert rows["/", "second"].first_seconds == observed.time.now_seconds


def test_what_a_new_object_did_before_its_first_sample_counts() -> None:
    row, ticks = a_row()
    change(row, ticks, 10)
    assert row.rate(PUBLISH) == 2


def test_what_an_object_did_before_the_mirror_began_is_no_rate() -> None:
    row, ticks = a_row(is_new=False)
    row.fields = {"message_stats": {"publish": 1000}}
    assert row.rate(PUBLISH) == 0
    assert row.samples(PUBLISH, 10, 5).avg == 1000
    change(row, ticks, 1010)
    assert row.rate(PUBLISH) == 2
    assert [value for _, value in row.samples(PUBLISH, 10, 5).samples] == [1010, 1000, 1000]


def test_an_idle_object_keeps_its_value_and_has_no_rate() -> None:
    row, ticks = a_row()
    change(row, ticks, 10, messages=4)
    ticks.last_seconds += 60
    assert row.rate(PUBLISH) == 0
    assert row.samples("messages", 60, 60).samples == [
        ((BEGIN_SECONDS + 60) * 1000, 4),
        (BEGIN_SECONDS * 1000, 0),
    ]


def test_a_gauge_may_fall_to_nothing() -> None:
    row, ticks = a_row()
    change(row, ticks, 10, messages=10)
    change(row, ticks, 10, messages=0)
    assert row.rate("messages") == -2
    change(row, ticks, 11, messages=0)
    assert row.rate("messages") == 0


def test_times_are_rounded_down_to_the_increment() -> None:
    row, ticks = a_row()
    change(row, ticks, 10)
    ticks.last_seconds += 10
    found = row.samples(PUBLISH, 600, 60).samples
    assert len(found) == 11
    assert found[0] == (BEGIN_SECONDS * 1000, 0)
    assert all(at % 60_000 == 0 for at, _ in found)


def test_an_hour_is_kept_by_the_minute() -> None:
    row, ticks = a_row()
    for number in range(1, 2 * 720 + 1):
        change(row, ticks, number)
    found = row.samples(PUBLISH, 3600, 60)
    assert len(found.samples) == 61
    newest = found.samples[0][1]
    # The last minutes are exact, those before to the minute.
    assert [value for _, value in found.samples] == [newest - 12 * back for back in range(61)]
    assert found.avg_rate == 0.2


def test_the_totals_are_kept_for_a_day() -> None:
    ticks = Ticks()
    ticks.last_seconds = BEGIN_SECONDS
    row = Row(ticks, TOTALS, is_new=True)
    for number in range(1, 17_281):
        change(row, ticks, number)
    found = row.samples(PUBLISH, 86_400, 1800)
    assert len(found.samples) == 49
    assert found.samples[0][1] == 17_280
    assert found.samples[-2][1] == 360
    assert found.samples[-1][1] == 0


def test_counters_may_exceed_32_bits() -> None:
    row, ticks = a_row()
    change(row, ticks, 5)
    change(row, ticks, 1 << 40)
    assert row.rate(PUBLISH) == ((1 << 40) - 5) / 5


def test_what_the_broker_did_before_the_mirror_began_is_no_rate_of_the_server() -> None:
    ticks = Ticks()
    ticks.last_seconds = BEGIN_SECONDS
    overview = Overview(ticks)
    kind = Kind(lambda attributes: attributes["name"], lambda attributes, _: attributes, OBJECTS)
    kinds = ("connections", "channels", "exchanges", "queues", "consumers")
    tables = {name: Table(kind, ticks) for name in kinds}
    for published in (1000, 1010):
        totals = {"message_stats": {"publish": published}}
        overview.take({"totals": totals}, tables, {"/": (published, published, 0)})
        overview.row.sample()
        ticks.last_seconds += 5
    found = overview.row.samples(PUBLISH, 600, 5).samples
    assert {value for _, value in found} == {1000, 1010}
    assert {value for _, value in overview.row.samples("messages", 600, 5).samples} == {1000, 1010}


async def test_a_time_without_samples_is_a_gap(observed: Observed) -> None:
    with connect(observed.server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        await observed.tick()
        row = observed.mirror.queues["/", "q"]
        client.publish(b"hello", "q")
        client.ready_count("q")
        # Late is no gap; that the machine slept, or the broker did not answer, is one.
        await observed.tick(15)
        assert row.gaps(0) == []
        client.publish(b"hello", "q")
        client.ready_count("q")
        await observed.tick(60)

    end = int(observed.time.now_seconds)
    assert row.gaps(0) == observed.mirror.overview.gaps(0) == [(end - 60, end)]
    assert row.gaps(end) == []
    shown = details(row, "messages", Range(60, 5))
    assert shown["gaps"] == [[(end - 60) * 1000, end * 1000]]
    assert {each["sample"] for each in shown["samples"][1:]} == {1}
    await observed.tick()
    assert "gaps" not in details(row, "messages", Range(5, 5))


async def test_samples_after_a_sleep_are_those_of_now(observed: Observed) -> None:
    class SleepingMachine(TurnedTime):
        async def until(self, at_seconds: float) -> None:
            await super().until(at_seconds)
            if len(self.waits) == 1:
                self.now_seconds += 62

    class RecordedMirror(Mirror):
        def __init__(self) -> None:
            super().__init__(observed.client, SleepingMachine())
            self.times: list[int] = []
            self.is_taken = asyncio.Event()

        def take_samples(self, at_seconds: int) -> None:
            self.times.append(at_seconds)
            self.is_taken.set()

    mirror = RecordedMirror()
    running = asyncio.create_task(mirror.run())
    async with asyncio.timeout(HANG_SECONDS):
        await mirror.is_taken.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert mirror.times[0] == BEGIN_SECONDS + 5 + 60


def test_an_object_has_no_gap_before_it_began() -> None:
    ticks = Ticks()
    for at_seconds in (BEGIN_SECONDS, BEGIN_SECONDS + 100, BEGIN_SECONDS + 105):
        ticks.tick(at_seconds)
    row = Row(ticks, OBJECTS, is_new=True)
    ticks.tick(BEGIN_SECONDS + 110)

    assert row.gaps(0) == []
    assert list(ticks.gaps) == [(BEGIN_SECONDS, BEGIN_SECONDS + 100)]
