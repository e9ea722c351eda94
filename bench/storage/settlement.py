"""Cost of acks in order, at random and of a group, and the memory of acks out of order."""

import gc
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from bench.storage.comparison import show_bar
from offsets import GroupOffsets, Settlement

IN_ORDER_SECONDS_MAX: Final = 1.0
AT_RANDOM_SECONDS_MAX: Final = 2.0
GROUP_ACKS: Final = 10_000
GROUP_ACKS_SECONDS_MAX: Final = 0.005
GROUP_RANGE: Final = 1_000_000
GROUP_RANGE_SECONDS_MAX: Final = 0.001


@click.command()
@click.option("--in-order", "in_order", default=10_000_000, help="Acks in order, in runs.")
@click.option("--run", "run_length", default=64, help="Acks in each run.")
@click.option("--at-random", "at_random", default=1_000_000, help="Acks one by one, at random.")
@click.option("--kept", default=10_000_000, help="Acks at random that are kept in memory.")
def benchmark(in_order: int, run_length: int, at_random: int, kept: int) -> None:
    """Settle and keep the acks of consumers."""
    runs = [(start, min(start + run_length, in_order)) for start in range(0, in_order, run_length)]
    seconds = _settle(runs)
    click.echo(f"{in_order:,} acks in order, in runs of {run_length}: {seconds:.2f} s")
    show_bar(f"{IN_ORDER_SECONDS_MAX} s for 10,000,000", is_reached=seconds <= IN_ORDER_SECONDS_MAX)
    shuffled = list(range(1, at_random + 1))
    random.Random(1).shuffle(shuffled)
    seconds = _settle([(offset, offset + 1) for offset in shuffled])
    click.echo(f"{at_random:,} acks one by one, at random: {seconds:.2f} s")
    show_bar(
        f"{AT_RANDOM_SECONDS_MAX} s for 1,000,000", is_reached=seconds <= AT_RANDOM_SECONDS_MAX
    )
    _measure_group()
    for share in (2, 10):
        kept_bytes = _kept_bytes(kept, share)
        click.echo(
            f"{kept:,} acks at random among {share * kept:,}: {kept_bytes / 1e6:,.1f} MB, "
            f"{kept_bytes / kept:.1f} bytes each"
        )


def _measure_group() -> None:
    """Print the cost of a consumer group's acks: one by one, and very many at once."""
    group = GroupOffsets("bench")
    group.start_at(0, 0)
    started = time.process_time()
    for offset in range(GROUP_ACKS):
        group.settle(offset, offset + 1, offset)
    seconds = time.process_time() - started
    assert group.committed == GROUP_ACKS
    click.echo(f"{GROUP_ACKS:,} acks of a group, one by one: {seconds * 1e3:.2f} ms")
    bar = f"{GROUP_ACKS_SECONDS_MAX * 1e3:.0f} ms"
    show_bar(bar, is_reached=seconds <= GROUP_ACKS_SECONDS_MAX)
    # Above the floor: a range at the floor is cheaper.
    start = GROUP_ACKS + 1
    started = time.process_time()
    group.settle(start, start + GROUP_RANGE, 0)
    seconds = time.process_time() - started
    click.echo(f"{GROUP_RANGE:,} acks of a group in one range: {seconds * 1e3:.3f} ms")
    bar = f"{GROUP_RANGE_SECONDS_MAX * 1e3:.0f} ms"
    show_bar(bar, is_reached=seconds <= GROUP_RANGE_SECONDS_MAX)


def _settle(ranges: Iterable[tuple[int, int]]) -> float:
    settlement = Settlement()
    # The time of this process alone: others may keep the machine busy.
    started = time.process_time()
    for start, end in ranges:
        settlement.settle(start, end)
    return time.process_time() - started


def _kept_bytes(count: int, share: int) -> int:
    """Return the memory of `count` acks at random among `share` times as many offsets."""
    draw = random.Random(2)
    span = count * share
    gc.collect()
    before_bytes = _resident_bytes()
    settlement = Settlement()
    for _ in range(count):
        offset = 1 + int(draw.random() * span)
        settlement.settle(offset, offset + 1)
    assert settlement.settled_above_floor or settlement.ack_floor
    return max(_resident_bytes() - before_bytes, 0)


def _resident_bytes() -> int:
    """Return the memory of this process, without mapped files."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024
