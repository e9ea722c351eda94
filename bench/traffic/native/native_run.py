"""Runs a publisher and a consumer of a native client against one broker."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.errors import BenchError
from bench.latency import LatencySummary
from bench.process_stats import ServerProbe
from bench.run import empty_queues
from bench.running_broker import RunningBroker
from bench.traffic.figures import TrafficFigures
from bench.traffic.native.clients import NativeClient, Program
from bench.traffic.row import TrafficEffort
from bench.traffic.shape import SERVICE_SIZES

_QUEUE: Final = "bench-native"
_SIZES: Final = 10_000
_TAILS_BYTES: Final = 1 << 17


class NativeProcess:
    """One process of a native client; the end of its `with` kills it if it still runs.

    Args:
        program: The client.
        arguments: Its arguments.
        errors: File for its standard error.
    """

    def __init__(self, program: Program, arguments: list[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as sink:
            self._process = subprocess.Popen(
                [*program.command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env=os.environ | program.environment,
            )
        self._probe: ServerProbe | None = None

    @contextmanager
    def running(self) -> Iterator["NativeProcess"]:
        """Wait until the client is ready; kill it at the end of the `with`."""
        try:
            if self._read_line() != "ready":
                raise BenchError("a native client did not say that it is ready")
            yield self
        finally:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()

    def go(self) -> None:
        """Start the run, and count the client's CPU from now on."""
        self._probe = ServerProbe(self._process.pid)
        assert self._process.stdin, "the process has a pipe"
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def take_result(self) -> tuple[dict[str, Any], float]:
        """Wait for the result, and return it with the CPU seconds of the run.

        Raises:
            BenchError: The client failed.
        """
        line = self._read_line()
        assert self._probe, "`go` was called"
        cpu_seconds = self._probe.cpu_seconds() or 0.0
        result: dict[str, Any] = json.loads(line)
        return result, cpu_seconds

    def wait(self) -> None:
        """Wait until the client has closed its connection and ended.

        Raises:
            BenchError: It ended with an error.
        """
        if self._process.wait():
            raise BenchError(f"a native client failed: {self._tail()}")

    def _read_line(self) -> str:
        assert self._process.stdout, "the process has a pipe"
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise BenchError(f"a native client failed: {self._tail()}")
        return line.strip()

    def _tail(self) -> str:
        return self._errors.read_text(errors="replace").strip()[-500:]


@dataclass(frozen=True, slots=True)
class NativeRun:
    """A publisher and a consumer of one client, a process each; the `measure` of a row.

    Attributes:
        client: The client.
    """

    client: NativeClient

    def __call__(self, broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
        """Run once, after a warm-up in the same processes' place.

        Raises:
            OSError: A program cannot be started.
            BenchError: The program cannot be built, or failed.
        """
        with tempfile.TemporaryDirectory(prefix="native-") as name:
            directory = Path(name)
            program = self.client.build(directory)
            random = Random(effort.seed)
            sizes = [SERVICE_SIZES.draw(random) for _ in range(_SIZES)]
            (directory / "sizes.txt").write_text("\n".join(map(str, sizes)) + "\n")
            (directory / "tails.bin").write_bytes(random.randbytes(_TAILS_BYTES))
            if effort.warm_up_seconds:
                self._run(broker, program, directory, effort.warm_up_seconds, effort.seed)
            return self._run(broker, program, directory, effort.seconds, effort.seed)

    def _run(
        self, broker: RunningBroker, program: Program, directory: Path, seconds: float, seed: int
    ) -> TrafficFigures:
        host, port = broker.url.host, str(broker.url.port)
        arguments = [host, port, _QUEUE, str(seconds), str(directory)]
        with ExitStack() as stack:
            connection = stack.enter_context(empty_queues(broker.url, [_QUEUE], durable=True))
            consumer, publisher = (
                stack.enter_context(
                    NativeProcess(program, [role, *arguments], directory / f"{role}.txt").running()
                )
                for role in ("consume", "publish")
            )
            probe = ServerProbe(broker.pid)
            consumer.go()
            publisher.go()
            start = time.monotonic()
            sent, publisher_cpu_seconds = publisher.take_result()
            seen, consumer_cpu_seconds = consumer.take_result()
            elapsed_seconds = time.monotonic() - start
            server_cpu_seconds = probe.cpu_seconds()
            others_cores = probe.others_cores(publisher_cpu_seconds + consumer_cpu_seconds)
            publisher.wait()
            consumer.wait()
            left = connection.count_ready(_QUEUE)
        p50, p99 = sent["p50_us"] / 1e6, sent["p99_us"] / 1e6
        return TrafficFigures(
            messages=seen["received"],
            seconds=elapsed_seconds,
            lost=abs(sent["confirmed"] - seen["received"]) + left,
            repeated=0,  # one more than was confirmed counts as lost
            corrupt=seen["corrupt"],
            disordered=seen["disordered"],
            # The programs report two percentiles only.
            latency=LatencySummary(p50, p99, p99, p99),
            server_cpu_seconds=server_cpu_seconds,
            generator_cpu_seconds=(publisher_cpu_seconds, consumer_cpu_seconds),
            others_cores=others_cores,
            seed=seed,
        )
