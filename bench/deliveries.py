"""Cost of a delivery in the kernels: `python -m bench.deliveries`, a few seconds, no server."""

from __future__ import annotations

import importlib
import time
from array import array
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import click

from appendlog import encode_message

CHANNEL, TAG, FRAME_MAX = 1, b"ctag1.0", 131_072
_PLAIN: Final = bytes.fromhex("100002")


def _with_filter_value(value: bytes) -> bytes:
    """Return properties with delivery mode 2 and the header that filters compare."""
    entry = b"\x15x-stream-filter-valueS" + len(value).to_bytes(4, "big") + value
    return b"\x30\x00" + len(entry).to_bytes(4, "big") + entry + b"\x02"


@click.command(context_settings={"show_default": True})
@click.option(
    "--run", "run_length", type=click.IntRange(1), default=1_000, help="Messages of a run."
)
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each body.")
@click.option("--rounds", type=click.IntRange(1), default=15, help="Rounds; medians are shown.")
def main(run_length: int, body_bytes: int, rounds: int) -> None:
    """Encode and filter runs of deliveries; prints ns of this process's CPU for each message."""
    alike = [encode_message(1, b"", b"bench", _PLAIN, b"." * body_bytes)] * run_length
    differing = [
        encode_message(3, b"", b"bench", _with_filter_value(b"%d" % number), b"." * body_bytes)
        for number in range(run_length)
    ]
    click.echo(f"runs of {run_length} messages of {body_bytes} B: ns a message")
    click.echo(f"{'':44}{'list':>8}{'buffer':>8}")
    for build in ("c", "py"):
        name = {"c": "compiled", "py": "interpreted"}[build]
        try:
            writing, filtering = (
                importlib.import_module(f"amqp_server.protocol.{kernel}_{build}")
                for kernel in ("_writing", "_filtering")
            )
        except ImportError:
            click.echo(f"{name}: not built")
            continue
        for title, messages in (("properties alike", alike), ("each its own header", differing)):
            # Separate objects, as in a ring: references to one object would stay in the cache.
            run = [bytes(bytearray(message)) for message in messages]
            for what, offset in (("plain", -1), ("with offset", 7)):
                _show(f"{name}, {title}, {what}", rounds, _encoders(writing, run, offset), run)
            _show(f"{name}, {title}, filtered", rounds, _filters(filtering, run), run)


def _encoders(kernel: Any, run: list[bytes], first_offset: int) -> list[Callable[[], object]]:  # noqa: ANN401 - a module
    places = (CHANNEL, TAG, 1, False, FRAME_MAX, first_offset)
    return [
        partial(kernel.encode_deliveries, run, *places),
        partial(kernel.encode_run, *_laid_out(run), 0, len(run), *places),
    ]


def _filters(kernel: Any, run: list[bytes]) -> list[Callable[[], object]]:  # noqa: ANN401 - a module
    values = (frozenset([b"1", b"2"]), False)
    return [
        partial(kernel.matching_messages, run, *values),
        partial(kernel.matching_run, *_laid_out(run), 0, len(run), *values),
    ]


def _laid_out(run: list[bytes]) -> tuple[bytes, array[int], array[int]]:
    lengths = array("I", map(len, run))
    positions = array("I")
    end = 0
    for length in lengths:
        positions.append(end)
        end += length
    return b"".join(run), positions, lengths


def _show(title: str, rounds: int, calls: list[Callable[[], object]], run: list[bytes]) -> None:
    figures = (_ns_of(call, rounds) / len(run) for call in calls)
    click.echo(f"{title:44}" + "".join(f"{figure:8.1f}" for figure in figures))


def _ns_of(call: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.process_time_ns()
        for _ in range(5):
            call()
        seconds.append((time.process_time_ns() - started) / 5)
    return median(seconds)


if __name__ == "__main__":
    main()
