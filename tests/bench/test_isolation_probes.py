"""The probes against a server of ours: a stop of the server is seen in whole, and nothing hides."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.broker_url import BrokerUrl
from bench.errors import BenchError
from bench.isolation.figures import ProbeFigures
from bench.isolation.phased_process import PhasedProcess
from bench.isolation.probes import (
    INTERVAL_NS,
    LAST_ANSWER_SECONDS_MAX,
    ProbeReport,
    RoundTrips,
    StopSign,
    measure_round_trips,
)
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

STOPPED_SECONDS = 0.3


@contextmanager
def probing(
    server: RunningServer, last_answer_seconds_max: float = LAST_ANSWER_SECONDS_MAX
) -> Iterator[tuple[PhasedProcess[ProbeReport | None], StopSign]]:
    sign = StopSign()
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    with PhasedProcess(measure_round_trips, url, sign, last_answer_seconds_max) as probes:
        assert probes.wait(HANG_SECONDS) is None
        probes.go()
        yield probes, sign


def report_of(probes: PhasedProcess[ProbeReport | None], sign: StopSign) -> ProbeReport:
    sign.set()
    report = probes.wait(HANG_SECONDS)
    assert report is not None
    return report


def test_a_stop_of_the_server_counts_for_every_round_trip_that_was_due_in_it(
    swept_server: RunningServer,
) -> None:
    server = swept_server
    with probing(server) as (probes, sign):
        time.sleep(0.1)
        os.kill(server.pid, signal.SIGSTOP)
        stopped_ns = time.monotonic_ns()
        time.sleep(STOPPED_SECONDS)
        continued_ns = time.monotonic_ns()
        os.kill(server.pid, signal.SIGCONT)
        time.sleep(0.1)
        report = report_of(probes, sign)

    for trips in (report.loop, report.durable):
        assert trips.unanswered == 0
        figures = ProbeFigures.of(trips, stopped_ns, continued_ns)
        assert figures is not None
        # Due each 5 ms, whatever happened to those before.
        assert figures.count == pytest.approx(STOPPED_SECONDS * 1e9 / INTERVAL_NS, rel=0.5)
        for due_ns, latency_ns in zip(trips.due_ns, trips.latencies_ns, strict=True):
            if stopped_ns < due_ns < continued_ns:
                assert latency_ns >= continued_ns - due_ns
        assert figures.worst_ms >= (continued_ns - stopped_ns - 2 * INTERVAL_NS) / 1e6
        assert all(
            after - before == INTERVAL_NS
            for before, after in zip(trips.due_ns, trips.due_ns[1:], strict=False)
        )


def test_round_trips_without_an_answer_count_up_to_the_end(
    swept_server: RunningServer,
) -> None:
    server = swept_server
    with probing(server, last_answer_seconds_max=0.05) as (probes, sign):
        time.sleep(0.1)
        os.kill(server.pid, signal.SIGSTOP)
        stopped_ns = time.monotonic_ns()
        time.sleep(0.05)
        report = report_of(probes, sign)
        ended_ns = time.monotonic_ns()
        os.kill(server.pid, signal.SIGCONT)

    for trips in (report.loop, report.durable):
        assert trips.unanswered > 0
        assert len(trips.latencies_ns) == len(trips.due_ns)
        due_ns, latency_ns = trips.due_ns[-1], trips.latencies_ns[-1]
        assert due_ns > stopped_ns
        assert due_ns + latency_ns <= ended_ns


def test_a_lost_connection_is_an_error(server: RunningServer) -> None:
    with probing(server) as (probes, _):
        server.kill()
        with pytest.raises(BenchError, match="measure_round_trips failed"):
            probes.wait(HANG_SECONDS)


def test_round_trips_of_another_time_do_not_count() -> None:
    trips = RoundTrips([10, 20, 30, 40], [1_000_000, 3_000_000, 2_000_000, 9_000_000], 1, 500_000)

    figures = ProbeFigures.of(trips, 10, 40)

    assert figures == ProbeFigures(
        count=3, p50_ms=2.0, p99_ms=3.0, worst_ms=3.0, unanswered=1, late_ms=0.5
    )
    assert ProbeFigures.of(trips, 11, 20) is None
