"""Tables for people: columns as wide as their widest cell."""

from collections.abc import Collection, Sequence

import click


def write_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Write a header and rows to standard output.

    Args:
        header: Names of the columns.
        rows: Cells of each row; printable text.
        right: Names of the columns that are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())
