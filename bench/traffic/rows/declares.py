"""Durable queues with other arguments each, and their bindings, pipelined on one connection."""

import time
from random import Random
from typing import Final

from bench import requests
from bench.amqp_frames import long_string, short_string
from bench.connection import Connection
from bench.process_stats import ServerProbe
from bench.requests import Request
from bench.running_broker import RunningBroker
from bench.traffic.figures import TrafficFigures
from bench.traffic.row import TrafficEffort, TrafficRow

_EXCHANGE: Final = "bench-declares"
_QUEUES: Final = 1_000
_CHANNEL: Final = 1


def _arguments(random: Random) -> bytes:
    """Encode the arguments of one queue: a dead-letter exchange, a TTL, a limit."""
    fields = short_string("x-dead-letter-exchange") + b"S" + long_string(b"amq.fanout")
    for name in ("x-message-ttl", "x-max-length"):
        fields += short_string(name) + b"I" + random.randrange(1_000, 1 << 30).to_bytes(4)
    return long_string(fields)


def _requests(names: list[str], random: Random) -> list[Request]:
    found = []
    for name in names:
        arguments = _arguments(random)
        found.append(requests.declare_queue(_CHANNEL, name, durable=True, arguments=arguments))
        found.append(requests.bind_queue(_CHANNEL, name, _EXCHANGE, f"{name}.#"))
    return found


def _measure(broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
    random = Random(effort.seed)
    count = max(20, round(_QUEUES * effort.share))
    names = [f"bench-{random.getrandbits(64):016x}" for _ in range(count)]
    with Connection(broker.url, _CHANNEL) as connection:
        connection.ask(requests.declare_exchange(_CHANNEL, _EXCHANGE, "topic", durable=True))
        encoded = _requests(names, random)
        probe = ServerProbe(broker.pid)
        cpu_before, start = time.process_time(), time.monotonic()
        connection.ask_pipelined(encoded)
        seconds = time.monotonic() - start
        cpu_seconds = time.process_time() - cpu_before
        server_cpu_seconds = probe.cpu_seconds()
        others_cores = probe.others_cores(cpu_seconds)
        # If a queue does not exist, the broker closes the channel, which is an error here.
        for name in names[:: max(1, count // 10)]:
            connection.count_ready(name)
        connection.ask_pipelined([requests.delete_queue(_CHANNEL, name) for name in names])
        connection.ask(requests.delete_exchange(_CHANNEL, _EXCHANGE))
        connection.close()
    return TrafficFigures(
        messages=len(encoded),
        seconds=seconds,
        lost=0,  # every answer is checked
        repeated=0,
        corrupt=0,
        disordered=0,
        latency=None,
        server_cpu_seconds=server_cpu_seconds,
        generator_cpu_seconds=(cpu_seconds,),
        others_cores=others_cores,
        seed=effort.seed,
    )


ROWS: Final = (
    TrafficRow(
        "declares-varied",
        "durable queues, each with other arguments and a binding to a topic exchange, pipelined",
        _measure,
        unit="answers/s",
    ),
)
