"""The table as text: a line for each row, and notes below."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.brokers import OURS, OURS_PURE, RABBITMQ
from bench.table.experiment import Row
from bench.table.row_result import RowResult

ALIKE: Final = (
    "alike messages differ in 16 octets only; in `python -m bench traffic` all messages differ"
)
"""Note below each table: no client sends such messages."""

_TITLE_WIDTH: Final = 52
_UNIT_WIDTH: Final = 14
_WIDTHS: Final = (12, 13, 12, 9, 8, 13, 11)


def format_head() -> str:
    """Return the heading of the columns."""
    heads = ("ours", "bar", "RabbitMQ", "ratio", "bar", "interpreted", "bar")
    return f"{'':<{_TITLE_WIDTH}}{'unit':<{_UNIT_WIDTH}}{_cells(heads)}  verdict"


def format_row(result: RowResult, *, is_judged: bool = True) -> str:
    """Return one row; a long title takes several lines, with the figures in the last one.

    Args:
        result: Result of the row.
        is_judged: Whether to add which bars the row reaches; rough figures are not judged.
    """
    row = result.row
    cells = (
        format_number(result.value(OURS), row.decimals),
        _bar(row, row.bar, row.decimals),
        format_number(result.value(RABBITMQ), row.decimals),
        "-" if result.ratio is None else f"{result.ratio:.2f}x",
        _bar(row, row.ratio_bar, None, "x"),
        format_number(result.value(OURS_PURE), row.decimals),
        _bar(row, row.interpreted_bar, row.decimals),
    )
    verdict = format_verdict(result, is_judged=is_judged)
    *above, title = textwrap.wrap(row.title, _TITLE_WIDTH - 2, subsequent_indent="  ")
    last = f"{title:<{_TITLE_WIDTH}}{row.unit:<{_UNIT_WIDTH}}{_cells(cells)}  {verdict}"
    return "\n".join([*above, last.rstrip()])


def format_verdict(result: RowResult, *, is_judged: bool = True) -> str:
    """Return whether a row counts, and which bars it misses."""
    if result.doubts:
        return f"DOES NOT COUNT: {'; '.join(result.doubts)}"
    if not is_judged:
        return ""
    met = [each.name for each in result.judgements if each.is_met]
    missed = [each.name for each in result.judgements if not each.is_met]
    if not missed:
        return "met" if met else "not compared"
    return f"MISSED: {', '.join(missed)}" + (f"; met: {', '.join(met)}" if met else "")


def format_notes(results: Sequence[RowResult], *, is_judged: bool = True) -> Iterator[str]:
    """Return the lines below the table: durability of the rows, and how many reach their bars."""
    by_durability: dict[str, list[str]] = {}
    for result in results:
        by_durability.setdefault(result.row.durability, []).append(result.row.key)
    for durability, keys in by_durability.items():
        yield f"{durability}: {', '.join(keys)}"
    yield ALIKE
    doubtful = sum(bool(result.doubts) for result in results)
    yield f"rows: {len(results)}, not counting: {doubtful}"
    if is_judged:
        for result in results:
            if result.is_split:
                runs = format_runs(result)
                yield f"not every run of ours reaches the bar: {result.row.key} {runs}"
        yield _count_met(results)


def format_runs(result: RowResult) -> str:
    """Return the figures of our server's runs in one row, with the unit."""
    runs = result.figures[OURS].runs
    return (
        f"{'; '.join(format_number(each, result.row.decimals) for each in runs)} {result.row.unit}"
    )


def _count_met(results: Sequence[RowResult]) -> str:
    judgements = [each for result in results if not result.doubts for each in result.judgements]
    counts: Mapping[str, list[bool]] = {
        name: [each.is_met for each in judgements if each.name == name]
        for name in ("ratio", "figure", "interpreted")
    }
    shares = [f"{name} {sum(met)} of {len(met)}" for name, met in counts.items() if met]
    return f"bars met: {', '.join(shares) or 'none was measured'}"


def format_number(value: float | None, decimals: int) -> str:
    """Return a figure as text; "-" for none."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def _bar(row: Row, bar: float | None, decimals: int | None, unit: str = "") -> str:
    if bar is None:
        return ""
    number = f"{bar:g}" if decimals is None else f"{bar:,.{decimals}f}"
    return f"{'<=' if row.is_lower_better else '>='}{number}{unit}"


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
