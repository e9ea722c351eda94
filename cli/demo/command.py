"""The click command: options, exit codes, and the demo's working directory."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from cli.commands import missing_library
from cli.demo.flights import FLIGHTS_MAX
from cli.exit_codes import EXIT_DONE

FLIGHTS_MIN: Final = 10


@click.command(
    epilog=(
        "Exit codes: 0 nothing was lost and Spark, if it was asked, counted the same number; 1 a "
        "message was lost or a step failed; 2 refused; 3 nothing was lost, but Spark could not run "
        "(no Java); 130 interrupted."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--quick",
    is_flag=True,
    help="Some seconds: kill the broker twice while made-up orders pass, without Spark.",
)
@click.option(
    "--flights",
    type=click.IntRange(FLIGHTS_MIN, FLIGHTS_MAX),
    default=FLIGHTS_MAX,
    help="Number of flights to publish.",
)
@click.option(
    "--storage-path",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of the broker, missing or empty; kept.  [default: a temporary one]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the Parquet files; kept afterwards.  [default: a temporary directory]",
)
@click.option("--keep", is_flag=True, help="Keep the temporary directory and print its path.")
@click.pass_context
def demo(
    ctx: click.Context,
    /,
    quick: bool,
    flights: int,
    storage_path: Path | None,
    out: Path | None,
    keep: bool,
) -> int:
    """Publish real flights, kill the broker while they are consumed, count them with Spark.

    Starts a broker of its own on a free port. It removes its files at the end unless --keep is
    given; after a failure it keeps them. It needs the extras demo and spark, and Java; with --quick
    it needs nothing.
    """
    if storage_path is not None and storage_path.exists() and any(storage_path.iterdir()):
        raise click.UsageError(f"--storage-path: {storage_path} is not empty")
    if quick:
        for name in ("flights", "out"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name} is for the whole demo, not for --quick")
    else:
        _check_libraries()
    with _working_directory(keep=keep) as directory, _terminated_as_interrupted():
        data = (storage_path or directory / "data").absolute()
        if quick:
            exit_code = _quick_demo(directory, data)
        else:
            out_path = (out or directory / "export").absolute()
            exit_code = _whole_demo(flights, directory, data, out_path)
        if exit_code != EXIT_DONE:
            click.echo(f"kept for a look: {directory}")
            return exit_code
        if keep:
            click.echo(f"kept: {directory}")
        else:
            shutil.rmtree(directory)
    return exit_code


def _quick_demo(directory: Path, storage_path: Path) -> int:
    # Imported here, as the other: each needs what the other does without.
    from cli.demo.quick import QuickDemo

    return QuickDemo(directory, storage_path).run()


def _whole_demo(flights: int, directory: Path, storage_path: Path, out: Path) -> int:
    from cli.demo.walkthrough import DemoSettings, Walkthrough

    return Walkthrough(DemoSettings(flights, directory, storage_path, out)).run()


def _check_libraries() -> None:
    """Refuse the whole demo if its clients are not installed."""
    try:
        import cli.demo.walkthrough  # noqa: F401
    except ModuleNotFoundError as error:
        advice = missing_library(error)
        if advice is None:
            raise
        raise click.UsageError(f"{advice}; 'amqp-server demo --quick' needs nothing") from error


@contextmanager
def _working_directory(*, keep: bool) -> Iterator[Path]:
    """Make a directory; remove it after an interruption, keep it if a step fails."""
    directory = Path(tempfile.mkdtemp(prefix="amqp-server-demo-"))
    try:
        yield directory
    except KeyboardInterrupt:
        if not keep:
            shutil.rmtree(directory)
        raise
    except Exception:
        click.echo(f"kept for a look: {directory}", err=True)
        raise


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the broker does not outlive the demo."""

    def interrupt(_number: int, _frame: Any) -> None:  # noqa: ANN401
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
