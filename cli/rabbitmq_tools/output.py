"""Writes results: lists and messages, in the formats of RabbitMQ's tools."""

from __future__ import annotations

from cli.rabbitmq_tools.values import Table, as_json, erlang, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMATTERS = ("table", "json", "csv", "erlang", "pretty_table", "text", "string", "report", "plain")
WITHOUT_BANNER = ("json", "csv")
"""Formats for programs: nothing but the result is written."""


class Rows:
    """A list.

    Args:
        columns: Names of the columns.
        rows: The cells of each row, in their order.
        is_stream: Whether an empty list writes nothing at all, as RabbitMQ's lists of objects.
        has_header: Whether the table begins with the names of the columns.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        is_stream: bool = False,
        has_header: bool = True,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.is_stream = is_stream
        self.has_header = has_header


class Message:
    """A result that is one text.

    Args:
        content: The text.
        value: What the format json shows instead of the text; None: the text.
    """

    def __init__(self, content: str, value: Mapping[str, object] | None = None) -> None:
        self.content = content
        self.value = value


def lines(
    result: Rows | Message | None, formatter: str, node: str, *, has_header: bool
) -> Iterator[str]:
    """Yield the lines that show a result.

    Args:
        result: The result of a verb.
        formatter: One of `FORMATTERS`.
        node: Name of the node.
        has_header: Whether a table begins with the names of its columns.
    """
    if formatter == "pretty_table" and result is not None:
        if isinstance(result, Message):
            result = Rows(("Output",), [[result.content]])
        elif not result.rows and not result.is_stream:
            result = Rows(("Output",), [["[]"]])
    if isinstance(result, Rows):
        yield from _LISTS.get(formatter, _table)(result, has_header and result.has_header)
    elif formatter == "json":
        value: Mapping[str, object] = {"node": node, "result": "ok"}
        if result is not None:
            value = {**value, "value": result.content} if result.value is None else result.value
        yield as_json(value)
    elif formatter == "erlang" and result is not None:
        yield erlang(result.content if result.value is None else result.value)
    elif result is not None:
        yield result.content


def _table(result: Rows, has_header: bool) -> Iterator[str]:
    if not result.rows:
        if not result.is_stream:
            yield ""
        return
    if has_header:
        yield "\t".join(result.columns)
    for row in result.rows:
        # Neither a tab nor a line feed in a name may look like the next cell.
        yield "\t".join(text(cell).replace("\t", "\\t").replace("\n", "\\n") for cell in row)


def _json(result: Rows, _has_header: bool) -> Iterator[str]:
    if not result.rows and not result.is_stream:
        yield "[]"
        return
    yield "["
    for number, row in enumerate(result.rows):
        shown = as_json(dict(zip(result.columns, row, strict=True)))
        yield f",{shown}" if number else shown
    yield "]"


def _csv(result: Rows, has_header: bool) -> Iterator[str]:
    if has_header and result.rows:
        yield ",".join(f'"{name}"' for name in result.columns)
    for row in result.rows:
        yield ",".join('"' + text(cell).replace('"', '""') + '"' for cell in row)


def _erlang(result: Rows, _has_header: bool) -> Iterator[str]:
    shown = [erlang(dict(zip(result.columns, row, strict=True))) for row in result.rows]
    yield "[" + ",\n ".join(shown) + "]"


def _pretty(result: Rows, _has_header: bool) -> Iterator[str]:
    """Yield a table with lines of the character set of a terminal VT100."""
    if not result.rows:
        return
    cells = [list(map(_pretty_text, row)) for row in result.rows]
    widths = [max(map(len, column)) for column in zip(result.columns, *cells, strict=True)]
    yield _line("l", "w", "k", widths)
    yield _side(
        f"\x1b[1m{name}\x1b[0m" + " " * (width - len(name))
        for name, width in zip(result.columns, widths, strict=True)
    )
    for row in cells:
        yield _line("t", "n", "u", widths)
        yield _side(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    yield _line("m", "v", "j", widths)


def _pretty_text(value: object) -> str:
    if isinstance(value, Table) and not value.entries:
        return ""
    return "".join(map(str, value)) if isinstance(value, list) else text(value)


def _line(left: str, middle: str, right: str, widths: Sequence[int]) -> str:
    return f"\x1b(0{left}{middle.join('q' * (width + 2) for width in widths)}{right}\x1b(B"


def _side(cells: Iterator[str]) -> str:
    bar = "\x1b(0x\x1b(B"
    return f"{bar} " + f" {bar} ".join(cells) + f" {bar}"


_LISTS = {"json": _json, "csv": _csv, "erlang": _erlang, "pretty_table": _pretty}
