"""Memory of a broker: idle, with many connections, and after many messages."""

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from bench.connection import Connection
from bench.errors import BenchError
from bench.process_stats import ServerProbe
from bench.run import run_workload
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row
from bench.workloads import WORKLOADS, Scale

_MESSAGES: Final = 10_000_000
_MESSAGES_BEFORE: Final = 1_000_000
_RABBITMQ_SHARE: Final = 0.05
"""With all messages, RabbitMQ would take minutes."""
_CONNECTIONS: Final = 1_000
_FILES_MORE: Final = 200
_SETTLE_SECONDS: Final = 0.5
_MB: Final = 1_000_000


def _measure(broker: StartableBroker, effort: Effort) -> Findings:
    connections = effort.count(_CONNECTIONS, least=100) if effort.is_quick else _CONNECTIONS
    with _many_files(connections), broker.start() as running:
        idle_bytes = _settled_bytes(running)
        connected_bytes = _bytes_with_connections(running, connections)
        lost = _exchange_messages(running, effort.count(_MESSAGES_BEFORE, least=1_000))
        before_bytes = _settled_bytes(running)
        lost += _exchange_messages(running, effort.count(_MESSAGES, least=10_000))
        after_bytes = _settled_bytes(running)
    more_bytes = (connected_bytes - idle_bytes) * _CONNECTIONS / connections
    return Findings(
        {
            "rss-idle": idle_bytes / _MB,
            "rss-connections": max(0.0, more_bytes) / _MB,
            "rss-growth": max(0, after_bytes - before_bytes) / _MB,
        },
        lost,
        details={
            "idle_bytes": idle_bytes,
            "connections": connections,
            "connected_bytes": connected_bytes,
            "before_bytes": before_bytes,
            "after_bytes": after_bytes,
        },
    )


def _settled_bytes(broker: RunningBroker) -> int:
    # After an answer a broker still works for a moment, for example to forget a connection.
    time.sleep(_SETTLE_SECONDS)
    rss_anon_bytes = ServerProbe(broker.pid).rss_anon_bytes()
    if rss_anon_bytes is None:
        raise BenchError("the memory of a broker on another machine cannot be measured")
    return rss_anon_bytes


def _bytes_with_connections(broker: RunningBroker, connections: int) -> int:
    with ExitStack() as stack:
        opened = [stack.enter_context(Connection(broker.url, 1)) for _ in range(connections)]
        connected_bytes = _settled_bytes(broker)
        for each in opened:
            each.close()
    return connected_bytes


def _exchange_messages(broker: RunningBroker, count: int) -> int:
    """Send messages through the broker, and return how many were lost."""
    return run_workload(broker, WORKLOADS["acks"], Scale(count=count)).lost


@contextmanager
def _many_files(connections: int) -> Iterator[None]:
    """Allow this process, and the broker that it starts, a file for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES_MORE
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise BenchError(
            f"{connections} connections need {wanted} open files, but the limit is {hard}: "
            "raise it with `ulimit -Hn`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


EXPERIMENTS: Final = (
    Experiment(
        "memory",
        (
            Row("rss-idle", "RssAnon, idle", "MB", is_lower_better=True, bar=60),
            Row(
                "rss-connections",
                "RssAnon, more with 1,000 connections, each with a channel",
                "MB",
                is_lower_better=True,
                bar=100,
            ),
            Row(
                "rss-growth",
                f"RssAnon, more after {_MESSAGES:,} alike messages than after the first "
                f"{_MESSAGES_BEFORE:,} (RabbitMQ: {_MESSAGES * _RABBITMQ_SHARE:,.0f}, "
                f"{_MESSAGES_BEFORE * _RABBITMQ_SHARE:,.0f})",
                "MB",
                is_lower_better=True,
                bar=5,
            ),
        ),
        _measure,
        seconds=20,
        rabbitmq_seconds=45,
        rabbitmq_share=_RABBITMQ_SHARE,
        runs_max=1,
    ),
)
