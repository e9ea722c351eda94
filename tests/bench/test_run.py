"""Every workload, tiny, against our own server; and the command that runs them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.command import main
from bench.consumer import ConsumeOrder, ConsumeResult, consume
from bench.message_body import BODY_BYTES_MIN
from bench.our_server import start_our_server
from bench.progress import ProgressWatch
from bench.publisher import PublishOrder, PublishResult, publish
from bench.run import run_workload
from bench.running_broker import RunningBroker
from bench.worker import Counters, StartLine
from bench.workloads import WORKLOADS, Client, Scale

pytestmark = pytest.mark.interop

TINY = Scale(
    seconds=0.2,
    warm_up_seconds=0,
    count=2_000,
    soak_seconds=0.5,
    soak_connections=3,
    backlog_count=2_000,
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # Interpreted: the test must also run where the kernels are not compiled.
    directory = tmp_path_factory.mktemp("server")
    with start_our_server("ours", directory, ring_slots=1024, is_pure=True) as running:
        yield running


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_loses_nothing(broker: RunningBroker, name: str) -> None:
    measurement = run_workload(broker, WORKLOADS[name], TINY)

    assert measurement.lost == 0
    assert measurement.received == measurement.published == measurement.confirmed > 0
    assert measurement.published_per_second > 0
    assert measurement.consumed_per_second > 0
    assert (measurement.latency is not None) == name.startswith("latency")
    assert (measurement.confirm_latency is not None) == (name == "latency-durable")
    assert (measurement.rss_anon_bytes_backlog is not None) == (name == "backlog")
    assert measurement.peak_rss_bytes


def receive_one_less(
    start_line: StartLine, order: ConsumeOrder, counters: Counters
) -> ConsumeResult:
    result = consume(start_line, order, counters)
    fewer = result.received - 1
    return replace(result, received_of_each=(fewer,), distinct=fewer)


def report_half(start_line: StartLine, order: PublishOrder, counters: Counters) -> PublishResult:
    result = publish(start_line, order, counters)
    return replace(result, published=result.published // 2, confirmed=result.confirmed // 2)


@pytest.mark.parametrize(
    "client",
    [Client(publish, receive_one_less), Client(report_half, consume)],
    ids=["a message does not arrive", "more messages arrive than were published"],
)
def test_a_message_too_few_or_too_many_is_a_loss(broker: RunningBroker, client: Client) -> None:
    workload = replace(WORKLOADS["acks"], client=client)

    measurement = run_workload(broker, workload, TINY)

    assert measurement.lost > 0
    if client.publish is publish:
        assert measurement.lost == 1


@pytest.mark.parametrize("name", ["transient", "durable", "latency"])
def test_the_smallest_bodies_are_told_apart_too(broker: RunningBroker, name: str) -> None:
    scale = replace(TINY, body_bytes=BODY_BYTES_MIN)

    measurement = run_workload(broker, WORKLOADS[name], scale)

    assert measurement.lost == 0
    assert measurement.received == measurement.published > 0


def test_the_soak_reports_its_progress(broker: RunningBroker) -> None:
    reported: list[tuple[int, int, int]] = []
    watch = ProgressWatch(lambda *figures: reported.append(figures))
    scale = Scale(soak_seconds=1.5, soak_connections=2)

    measurement = run_workload(broker, WORKLOADS["soak"], scale, watch=watch.look)

    assert reported
    assert all(0 <= received <= measurement.received for _, _, received in reported)


def test_a_second_without_a_delivery_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    counters, now = Counters(), [10.0]
    watch = ProgressWatch(lambda *_: None)
    monkeypatch.setattr("bench.progress.time.monotonic", lambda: now[0])
    for at, published, received in ((10.0, 5, 0), (11.0, 9, 5), (12.1, 9, 5), (13.0, 9, 9)):
        now[0], counters.published.value, counters.received.value = at, published, received
        watch.look(counters)

    assert watch.stalled_seconds == 1


def test_a_workload_loses_nothing_on_queues_that_have_had_a_warm_up(broker: RunningBroker) -> None:
    measurement = run_workload(broker, WORKLOADS["durable"], TINY.for_warm_up(), TINY)

    assert measurement.lost == 0
    assert measurement.received == measurement.published > 0


def test_the_command_measures_a_broker_by_its_url(broker: RunningBroker, tmp_path: Path) -> None:
    url = f"amqp://{broker.url.host}:{broker.url.port}"
    file = tmp_path / "report.json"
    arguments = ["--url", url, "--count", "1000", "--warm-up", "0.1", "--runs", "2"]
    arguments += ["--workloads", "transient,acks", "--json", str(file)]

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0, result.output
    assert "transient: transient messages" in result.stdout
    report = json.loads(file.read_text())
    assert [each["workload"] for each in report["outcomes"]] == ["transient", "acks"]
    assert all(len(each["runs"]) == 2 and each["counts"] for each in report["outcomes"])


def test_the_command_refuses_what_it_does_not_know() -> None:
    result = CliRunner().invoke(main, ["--workloads", "transient,speed"])

    assert result.exit_code == 2
    assert "speed; there are transient, acks" in result.output
