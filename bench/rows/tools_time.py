"""Time that RabbitMQ's command-line tools take, from start to end of their process."""

import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Final

from bench.connection import Connection
from bench.declares import declare_queue, delete_queue
from bench.errors import BenchError
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row

_QUEUES: Final = 1_000
_QUEUES_LEAST: Final = 20
_RUNS: Final = 9
_COMMANDS: Final = {
    "tools-status": ("rabbitmqctl", "status"),
    "tools-check": ("rabbitmq-diagnostics", "check_running"),
    "tools-ping": ("rabbitmq-diagnostics", "ping"),
    "tools-queues": ("rabbitmqctl", "-q", "list_queues"),
}
_TITLES: Final = {
    "tools-status": "rabbitmqctl status, with 1,000 queues",
    "tools-check": "rabbitmq-diagnostics check_running",
    "tools-ping": "rabbitmq-diagnostics ping",
    "tools-queues": "rabbitmqctl -q list_queues, with 1,000 queues",
}
_BAR_SECONDS: Final = 0.15


def _measure(broker: StartableBroker, effort: Effort) -> Findings:
    running = broker.running()
    if running.tools is None:
        return Findings({})
    queues, runs = effort.count(_QUEUES, least=_QUEUES_LEAST), effort.count(_RUNS)
    with Connection(running.url, 1) as connection:
        connection.ask_pipelined([declare_queue(number) for number in range(queues)])
        try:
            found = {
                key: median(_seconds(running.tools, command, queues) for _ in range(runs))
                for key, command in _COMMANDS.items()
            }
        finally:
            connection.ask_pipelined([delete_queue(number) for number in range(queues)])
        connection.close()
    return Findings(found, details={"queues": queues, "runs": runs})


def _seconds(tools: Path, command: tuple[str, ...], queues: int) -> float:
    begin = time.monotonic()
    done = subprocess.run(
        [str(tools / command[0]), *command[1:]], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise BenchError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    if "list_queues" in command and done.stdout.count("\n") < queues:
        raise BenchError(f"{command[0]} listed fewer than {queues} queues")
    return seconds


EXPERIMENTS: Final = (
    Experiment(
        "tools",
        tuple(
            Row(
                key,
                f"{title}: start to end of its process",
                "s",
                is_lower_better=True,
                bar=_BAR_SECONDS,
                decimals=3,
            )
            for key, title in _TITLES.items()
        ),
        _measure,
        seconds=3,
        rabbitmq_seconds=20,
        rabbitmq_share=1,
    ),
)
