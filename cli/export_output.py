"""Common parts of the commands that read an output: options, queues, errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from appendlog import LogError
from appendlog.spark.errors import AmqplogError, OutputError
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.committing.manifest import OutputDamagedError
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.table_kinds import open_table
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.ranges import Range
from cli.command_failure import CommandFailedError
from cli.control import check_utf8
from cli.exit_codes import EXIT_CORRUPT, EXIT_FAILED, EXIT_REFUSED
from cli.store_options import store_option

RANGES_SHOWN: Final = 3

_F = TypeVar("_F", bound=Callable[..., Any])


def output_options(command: _F) -> _F:
    """Add the options for an output, and for queues in it."""
    options = (
        click.option("--out", required=True, metavar="DIR|URL", help="Output of exports."),
        click.option("--queue", callback=check_utf8, help="Only this queue.  [default: all]"),
        click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line."),
        store_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def output_refusals() -> Iterator[None]:
    """Turn errors of an output or a log into one line and an exit code.

    Raises:
        CommandFailedError: Code 2 if there is no output, 5 if its manifests are damaged,
            otherwise 1.
    """
    try:
        yield
    except OutputDamagedError as error:
        raise CommandFailedError(str(error), EXIT_CORRUPT) from error
    except AmqplogError as error:
        raise CommandFailedError(str(error), EXIT_REFUSED) from error
    except LogError as error:
        raise CommandFailedError(str(error), EXIT_FAILED) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CommandFailedError(f"{where}{error.strerror or error}", EXIT_FAILED) from error


def open_output(
    out: str, queue: str | None, reached_by: StoreOptions
) -> tuple[OutputStore, list[Manifests]]:
    """Return an output of files, and the manifests of its queues.

    Raises:
        AmqplogError: There is no output, it cannot be reached, or it is a table.
    """
    store = open_store(out, reached_by.as_dict())
    if table := open_table(store):
        raise OutputError(
            f"{store.url}: {table.cleaned_by} removes what killed exports have left in it: "
            "only it knows which files its older versions need"
        )
    return store, exported_queues(store, queue)


def shown_ranges(ranges: tuple[Range, ...]) -> str:
    """Return the first few ranges as text."""
    shown = ", ".join(f"[{start}, {end})" for start, end in ranges[:RANGES_SHOWN])
    more = len(ranges) - RANGES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown or "-"
