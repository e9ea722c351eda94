"""Steps of the demo, in order: each prints its title, runs, and prints its result."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from cli.demo.broker_process import BrokerProcess
from cli.demo.consuming import FlightConsumer
from cli.demo.delays import QUERY, format_table, query_delays, why_no_spark
from cli.demo.flights import read_flights
from cli.demo.ledger import Ledger
from cli.demo.program import command_line, environment, shown
from cli.demo.progress import progress
from cli.demo.publishing import WINDOW, FlightPublisher
from cli.exit_codes import EXIT_DONE, EXIT_FAILED

EXIT_WITHOUT_SPARK: Final = 3

CHECKPOINT_INTERVAL: Final = "1s"
"""Shorter than the default of 5 s: half of the flights are consumed in a few seconds."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Settings of the demo.

    Attributes:
        flights: Number of flights to publish.
        directory: Directory for the logs of broker and Spark.
        storage_path: Data directory of the broker, missing or empty; absolute.
        out: Directory of the export; absolute.
    """

    flights: int
    directory: Path
    storage_path: Path
    out: Path


class Walkthrough:
    """Run of the demo. Prints to standard output; progress goes to standard error.

    Args:
        settings: Settings of the run; not changed.
    """

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        self._ledger = Ledger()
        self._faults: list[str] = []
        self._seconds: dict[str, float] = {}
        self._step_count = 0

    def run(self) -> int:
        """Run all steps and return the exit code.

        Raises:
            DemoError: A step failed, so that the next one cannot run.
            ModuleNotFoundError: pika or the flights are not installed.
        """
        missing = why_no_spark()
        if missing is not None:
            click.echo(f"The last two steps will be left out. {missing}")
        arguments = ["--port", "0", "--storage-path", str(self._settings.storage_path)]
        arguments += ["--offset-checkpoint-interval", CHECKPOINT_INTERVAL]
        with BrokerProcess(arguments, self._settings.directory / "broker.log") as broker:
            self._start(broker, "Start a broker", "start")
            self._publish(broker)
            self._consume_and_kill(broker)
            self._start(broker, "Start it again, on the same data", "start again")
            self._consume_rest(broker)
            if missing is None and self._export():
                self._query()
            with self._timed("stop"):
                broker.stop()
        self._sum_up(missing)
        if self._faults:
            return EXIT_FAILED
        return EXIT_WITHOUT_SPARK if missing else EXIT_DONE

    def _start(self, broker: BrokerProcess, title: str, name: str) -> None:
        self._begin_step(title, broker.command)
        with self._timed(name):
            broker.start()
        _say(f"listens on 127.0.0.1:{broker.port}, process {broker.pid}")
        for line in broker.output.splitlines():
            if " recovered queues=" in line:
                _say(f"its log says: {line.partition(' recovered ')[2]}")

    def _publish(self, broker: BrokerProcess) -> None:
        count = self._settings.flights
        self._begin_step(f"Publish {count} flights, a JSON message each")
        _say("topic exchange 'flights' > durable queue 'flights', routing key carrier.origin;")
        _say(f"persistent, with confirms, up to {WINDOW} of them outstanding")
        with progress("confirmed", count) as show, self._timed("publish"):
            publisher = FlightPublisher(broker.port, read_flights(count), self._ledger, show)
            publisher.run()
        if publisher.refused:
            self._faults.append(f"{publisher.refused} messages were refused (basic.nack)")
        logs = list((self._settings.storage_path / "logs").rglob("*.log"))
        size_bytes = sum(path.stat().st_size for path in logs)
        _say(
            f"{publisher.confirmed} confirmed{self._rate('publish', count)}; "
            f"the log is {size_bytes / 1e6:.0f} MB in {len(logs)} segments"
        )

    def _consume_and_kill(self, broker: BrokerProcess) -> None:
        half = self._settings.flights // 2
        self._begin_step(f"Consume {half} of them, then kill the broker", f"kill -9 {broker.pid}")
        with progress("consumed", half) as show, self._timed("consume half"):
            consumer = FlightConsumer(broker.port, half, self._ledger, show, broker.kill)
            consumer.run()
        more = consumer.received - half
        _say(f"{half} received{self._rate('consume half', half)}; then the broker was dead,")
        _say(f"and {more} more were in transit and could not be acknowledged")

    def _consume_rest(self, broker: BrokerProcess) -> None:
        self._begin_step("Consume what is left")
        ledger = self._ledger
        with (
            progress("flights seen", ledger.published) as show,
            self._timed("consume the rest"),
        ):
            consumer = FlightConsumer(broker.port, None, ledger, lambda _: show(ledger.distinct))
            consumer.run()
        _say(f"{consumer.received} received{self._rate('consume the rest', consumer.received)}")
        _say(
            f"{ledger.missing} lost; {ledger.repeated} came twice, "
            f"{ledger.repeated - ledger.unmarked} of these marked redelivered"
        )
        _say("(acks since the last checkpoint are lost in a crash: --offset-checkpoint-interval)")
        for count, fault in (
            (ledger.missing, "flights were lost"),
            (ledger.unmarked, "flights came twice without being marked redelivered"),
            (ledger.damaged, "messages came with another body than the published one"),
        ):
            if count:
                self._faults.append(f"{count} {fault}")

    def _export(self) -> bool:
        settings = self._settings
        arguments = ["export", "--storage-path", str(settings.storage_path), "--queue", "flights"]
        arguments += ["--to", "parquet", "--out", str(settings.out)]
        self._begin_step("Export the queue's log with Spark; the broker runs on", shown(arguments))
        with self._timed("export"):
            ended = subprocess.run(  # noqa: S603 - ourselves, no shell
                command_line(arguments), env=environment(), stdin=subprocess.DEVNULL, check=False
            )
        if ended.returncode != 0:
            self._faults.append(f"the export ended with exit code {ended.returncode}")
        return ended.returncode == 0

    def _query(self) -> None:
        self._begin_step("Ask Spark SQL about the exported files")
        for line in QUERY.splitlines():
            _say(f"| {line}")
        with self._timed("query"):
            rows = query_delays(self._settings.out, self._settings.directory / "spark.log")
        click.echo()
        for line in format_table(rows).splitlines():
            _say(line)
        counted = {row.carrier: row.flights for row in rows}
        if counted != dict(self._ledger.by_carrier):
            self._faults.append("Spark's counts differ from the published flights")

    def _sum_up(self, missing: str | None) -> None:
        self._begin_step("Summary")
        ledger = self._ledger
        _say(f"published {ledger.published}, received {ledger.received}, lost {ledger.missing}")
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._seconds.items())
        _say(f"{sum(self._seconds.values()):.1f} s: {spent}")
        if missing is not None:
            _say(f"left out: export and query. {missing}")
        for fault in self._faults:
            _say(f"FAILED: {fault}")
        if not self._faults:
            _say("nothing was lost")

    def _begin_step(self, title: str, command: str | None = None) -> None:
        self._step_count += 1
        click.echo(f"\n{self._step_count}. {title}")
        if command is not None:
            _say(f"$ {command}")

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - started

    def _rate(self, name: str, count: int) -> str:
        seconds = self._seconds[name]
        return f" in {seconds:.1f} s, {count / seconds:.0f} a second"


def _say(text: str) -> None:
    click.echo(f"   {text}")
