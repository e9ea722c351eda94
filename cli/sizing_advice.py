"""What to set for a load, and what one broker cannot do: it follows from `cli.capacity`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from amqp_server.base.config import ServerConfig
from cli import capacity
from cli import unit_costs as costs
from cli.capacity import Load
from cli.display import rough_size
from cli.unit_costs import MIB
from cli.units import format_duration, format_size

GIB: Final = 1024 * MIB
_DEFAULTS: Final = ServerConfig()
_LIMIT_SECONDS: Final = 10
"""Writes at the peak for which there is space below `--disk-free-limit`: the disk is looked at each
second, and what blocked publishers have sent is written too."""
_MEMORY_STEP: Final = 64 * MIB
_QUEUES_MAX: Final = 100_000
"""Queues of one virtual host (docs/architecture/limits.md)."""
_SEVERAL: Final = "docs/availability.md#several-brokers"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value to set.

    Attributes:
        name: Option of the server, directive of systemd, or what the machine must have.
        value: As it is written there.
        why: How it follows.
    """

    name: str
    value: str
    why: str


def settings(load: Load) -> list[Setting]:
    """Return what to set, for the machine and for the server."""
    return [*_of_the_machine(load), *_of_the_server(load)]


def memory_max(load: Load) -> int:
    """Return the memory that the service or container may use, in bytes."""
    broker, others = capacity.broker_memory(load).total, capacity.other_memory(load).total
    wanted = max(broker / _DEFAULTS.memory_watermark, broker + others)
    return _up(wanted, _MEMORY_STEP)


def free_limit(load: Load) -> int:
    """Return a fitting `--disk-free-limit`, in bytes."""
    written = capacity.disk_bytes_per_second(load) * _LIMIT_SECONDS
    return _up(max(_DEFAULTS.disk_free_limit_bytes, written), MIB)


def volume_bytes(load: Load) -> int:
    """Return the size of the volume for the data directory, in whole GiB."""
    used = capacity.disk(load).total + free_limit(load)
    return _up(used * (1 + capacity.SPARE_SHARE), GIB)


def file_limit(load: Load) -> int:
    """Return the limit of open files with which the server accepts all connections it may."""
    connections = max(_DEFAULTS.connections_max, _connections_max(load))
    return connections + costs.OTHER_FILES + costs.CACHED_FILES


def warnings(load: Load) -> Iterator[str]:
    """Return one line for each thing that one broker cannot do, or not with its defaults."""
    cores = capacity.processor(load).total
    if cores > costs.LOOP_CORES_MAX:
        brokers = math.ceil(cores / costs.LOOP_CORES_MAX)
        yield (
            f"the peak takes {cores:.2f} of the one core that a broker's event loop has, more than "
            f"{costs.LOOP_CORES_MAX:g}: divide it over {brokers} brokers ({_SEVERAL}); shards of "
            "one broker share its loop"
        )
    if load.connections > _DEFAULTS.connections_max:
        yield (
            f"{load.connections:,} connections are more than {_DEFAULTS.connections_max:,}, the "
            f"default: set --max-connections {_connections_max(load)} and LimitNOFILE="
            f"{file_limit(load)}, or divide them over several brokers ({_SEVERAL})"
        )
    if load.queues > _QUEUES_MAX:
        yield f"a virtual host has at most {_QUEUES_MAX:,} queues: use several ({_SEVERAL})"
    if load.message_bytes > _DEFAULTS.max_message_bytes:
        yield (
            f"bodies of {rough_size(load.message_bytes)} are refused above --max-message-size, "
            f"{format_size(_DEFAULTS.max_message_bytes)} by default"
        )
    needed = capacity.disk(load)
    started = needed.terms[2].amount
    if started > needed.total / 2 and started > GIB:
        yield (
            f"{rough_size(round(started))} of the disk are for files that are needed in part: a "
            "smaller --segment-bytes makes it less"
        )


def _of_the_machine(load: Load) -> Iterator[Setting]:
    cores = capacity.shown_cores(load)
    writes = capacity.disk_bytes_per_second(load)
    syncs = load.peak_per_second * load.fanout if load.is_synced else 0
    yield Setting(
        "MemoryMax=",
        f"{memory_max(load) // MIB}M",
        "the broker's memory within --memory-watermark 0.6; the rest is for what is beside it "
        "and the page cache",
    )
    yield Setting(
        "volume",
        format_size(volume_bytes(load)),
        "disk, --disk-free-limit and a tenth; links of a back-up take no more while the files "
        "they share are there",
    )
    yield Setting(
        "writes of the volume",
        f"{rough_size(round(writes))}/s",
        f"at the peak; up to {syncs:,.0f} syncs/s, fewer if the disk is slower; each writes 4 to 8 "
        "KiB more for the file system"
        if load.is_synced
        else "at the peak; no confirm waits for a sync",
    )
    yield Setting(
        "cores",
        "2" if cores > costs.LOOP_CORES_MAX else "1 or more",
        f"top shows up to {cores:.2f} at the peak; messages that come alone take about "
        f"{costs.LONE_US} us each, and less the more there are a second",
    )
    yield Setting(
        "LimitNOFILE=", str(file_limit(load)), "--max-connections, the server and its caches"
    )


def _of_the_server(load: Load) -> Iterator[Setting]:
    if load.connections > _DEFAULTS.connections_max:
        yield Setting("--max-connections", str(_connections_max(load)), "a tenth more")
    yield Setting(
        "--disk-free-limit",
        format_size(free_limit(load)),
        f"the default, or {_LIMIT_SECONDS} s of writes at the peak",
    )
    yield Setting(
        "--ring-bytes-total", format_size(load.ring_bytes_total), "as given, or the default"
    )
    yield Setting("--segment-bytes", format_size(load.segment_bytes), "as given, or the default")
    if load.retain_seconds:
        kept = capacity.disk(load).terms
        yield Setting("--retain-for", format_duration(load.retain_seconds), "as given")
        yield Setting(
            "--retain-bytes-total",
            format_size(_up(kept[1].amount + kept[2].amount, GIB)),
            "settled messages, and files that are needed in part: more than planned never fills "
            "the disk with what is settled",
        )


def _connections_max(load: Load) -> int:
    """Return the connections with a tenth more, for those that come again before the old end."""
    return load.connections + math.ceil(load.connections / 10)


def _up(size: float, step: int) -> int:
    return math.ceil(size / step) * step
