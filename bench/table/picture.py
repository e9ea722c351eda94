"""The table as a picture: ratios with their bars, throughput over message size and over time."""

import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.brokers import OURS, RABBITMQ
from bench.table.curves import SizePoint, TimeCurve
from bench.table.report import Report
from bench.table.row_result import RowResult
from bench.table.text import format_runs

_INK: Final = "#1f2933"
_FAINT: Final = "#7b8794"
_GRID: Final = "#e4e7eb"
_MET: Final = "#0f8b8d"
_MISSED: Final = "#e4572e"
_NO_BAR: Final = "#9fc9c9"
_DOUBTFUL: Final = "#c5ccd3"
_THEIRS: Final = "#f0932b"
_TITLE_CHARACTERS: Final = 52
_TIMES_MAX: Final = 200.0
_ROW_INCHES: Final = 0.38
_CURVES_INCHES: Final = 4.2
_HEAD_INCHES: Final = 1.3
_WIDTH_INCHES: Final = 14.0
_STYLE: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _FAINT,
    "ytick.color": _INK,
    "grid.color": _GRID,
    "legend.frameon": False,
}

_Axes = Any
"""Axes of matplotlib, which only a picture imports, so that a table does not need it."""


def draw(report: Report, file: Path) -> None:
    """Draw a report as PNG; panels without figures are left out.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    bands: list[tuple[float, list[tuple[Any, Any]]]] = []
    compared = [result for result in report.results if _times_better(result) is not None]
    if compared:
        bands.append((_ROW_INCHES * len(compared) + 0.9, [(_draw_ratios, compared)]))
    curves: list[tuple[Any, Any]] = []
    if any(point.messages_per_second for point in report.sizes):
        curves.append((_draw_sizes, report.sizes))
    curves += [(_draw_over_time, curve) for curve in report.over_time if curve.seconds]
    if curves:
        bands.append((_CURVES_INCHES, curves))
    heights = [height for height, _ in bands]
    with mpl.rc_context(_STYLE):
        figure = Figure(
            figsize=(_WIDTH_INCHES, _HEAD_INCHES + sum(heights)),
            layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.15),
            dpi=110,
        )
        figure.suptitle(_title(report), x=0.012, ha="left", fontsize=11)
        if bands:
            parts = figure.subfigures(len(bands), 1, height_ratios=heights, squeeze=False)[:, 0]
            for part, (_, panels) in zip(parts, bands, strict=True):
                axes = part.subplots(1, len(panels), squeeze=False)[0]
                for at, (draw_panel, figures) in zip(axes, panels, strict=True):
                    draw_panel(at, figures)
        figure.savefig(file, facecolor="white", metadata={"Software": ""})


def _title(report: Report) -> str:
    machine = report.machine
    products = (report.products.get(name) for name in (OURS, RABBITMQ))
    brokers = " beside ".join(product for product in products if product)
    rough = "rough figures, " if report.is_quick else ""
    cores = f"the same {machine.cores} cores as publishers and consumers"
    return (
        f"{brokers or 'amqp-server'}, on {cores}\n"
        f"{rough}{report.date}, commit {machine.commit or 'unknown'}, {machine.processor}, "
        f"{machine.system}, Python {machine.python}, {report.file_system}"
    )


def _times_better(result: RowResult) -> float | None:
    """Return how many times better we are than RabbitMQ; lower figures may be the better ones."""
    ratio = result.ratio
    if not ratio:
        return None
    return 1 / ratio if result.row.is_lower_better else ratio


def _bar(result: RowResult) -> float | None:
    bar = result.row.ratio_bar
    return 1 / bar if bar and result.row.is_lower_better else bar


def _colour(result: RowResult) -> str:
    if result.doubts:
        return _DOUBTFUL
    met = [each.is_met for each in result.judgements if each.name == "ratio"]
    return (_MET if met[0] else _MISSED) if met else _NO_BAR


def _draw_ratios(axes: _Axes, results: Sequence[RowResult]) -> None:
    axes.set_title("Times better than RabbitMQ, measured in turn; the mark is the bar")
    places = range(len(results))
    # One very long bar would make all others short; the number beside it stays true.
    values = [min(_times_better(result) or 1.0, _TIMES_MAX) for result in results]
    axes.set_xscale("log")
    axes.barh(
        places,
        [value - 1 for value in values],
        left=1,
        height=0.62,
        color=[_colour(result) for result in results],
        zorder=2,
    )
    for place, result, value in zip(places, results, values, strict=True):
        bar = _bar(result)
        if bar:
            axes.plot([bar, bar], [place - 0.42, place + 0.42], color=_INK, linewidth=2, zorder=3)
        label = f"{_times_better(result):,.1f}x" + (f"  (bar {bar:g}x)" if bar else "")
        if result.is_split and not bar:
            # A ratio of medians alone hides that the runs differ.
            label += f"; ours: {format_runs(result)}"
        end = max(value, bar or 0, 1)
        axes.annotate(
            label, (end, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.axvline(1, color=_FAINT, linewidth=1, zorder=1)
    axes.legend(handles=_meanings(results), loc="lower right", fontsize=9)
    axes.set_ylim(-0.7, len(results) - 0.3)
    titles = [textwrap.fill(result.row.title, _TITLE_CHARACTERS) for result in results]
    axes.set_yticks(places, titles)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    ends = [max(value, _bar(result) or 0) for value, result in zip(values, results, strict=True)]
    axes.set_xlim(min([0.8, *(value * 0.8 for value in values)]), max([2.0, *ends]) * 2.2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.xaxis.set_minor_formatter(lambda _value, _: "")
    axes.grid(axis="x", zorder=0)


def _meanings(results: Sequence[RowResult]) -> list[Any]:
    """Return the legend of the colours that occur."""
    from matplotlib.patches import Patch

    found = {_colour(result) for result in results}
    meanings = (
        (_MET, "bar met"),
        (_MISSED, "bar missed"),
        (_NO_BAR, "no bar for the ratio"),
        (_DOUBTFUL, "does not count"),
    )
    return [Patch(color=colour, label=label) for colour, label in meanings if colour in found]


def _draw_sizes(axes: _Axes, points: Sequence[SizePoint]) -> None:
    axes.set_title("Alike messages a second over their size")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    colours = {OURS: _MET, RABBITMQ: _THEIRS}
    for broker, workload in dict.fromkeys((point.broker, point.workload) for point in points):
        line = [
            (point.body_bytes, point.messages_per_second)
            for point in points
            if (point.broker, point.workload) == (broker, workload) and point.messages_per_second
        ]
        axes.plot(
            *zip(*line, strict=True),
            color=colours.get(broker, _FAINT),
            linestyle="-" if workload == "transient" else "--",
            marker="o",
            markersize=4,
            label=f"{broker}, {workload}",
        )
    if any(point.is_busy for point in points):
        axes.set_xlabel("the machine was busy: do not quote")
    sizes = sorted({point.body_bytes for point in points})
    axes.set_xticks(sizes, [_describe_size(each) for each in sizes])
    axes.yaxis.set_major_formatter(lambda value, _: _describe_rate(value))
    axes.grid(axis="y")
    axes.legend(loc="best", fontsize=9)


def _draw_over_time(axes: _Axes, curve: TimeCurve) -> None:
    axes.set_title(f"Alike messages a second over time: {curve.workload}, confirms and acks")
    rates = curve.messages_per_second
    axes.fill_between(curve.seconds, rates, color=_MET, alpha=0.15, linewidth=0)
    axes.plot(curve.seconds, rates, color=_MET, linewidth=1.2)
    median, least = statistics.median(rates), min(rates)
    axes.axhline(median, color=_INK, linewidth=1, linestyle=":")
    axes.set_ylim(0, max(rates) * 1.15)
    axes.set_xlim(0, curve.seconds[-1])
    axes.set_xlabel(
        f"seconds; median {_describe_rate(median)}, the slowest of {len(rates)} points "
        f"{_describe_rate(least)}, LOST {curve.lost}"
        + ("\nthe machine was busy: do not quote" if curve.is_busy else "")
    )
    axes.yaxis.set_major_formatter(lambda value, _: _describe_rate(value))
    axes.grid(axis="y")


def _describe_size(octets: float) -> str:
    return f"{octets / 1024:g} KiB" if octets >= 1024 else f"{octets:g} B"


def _describe_rate(rate: float) -> str:
    if rate >= 1e6:
        return f"{rate / 1e6:.3g} M"
    return f"{rate / 1e3:.3g} k" if rate >= 1e3 else f"{rate:.3g}"
