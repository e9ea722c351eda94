"""The click command: options, exit codes, and the demo's working directory."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from cli.demo.flights import FLIGHTS_MAX
from cli.demo.walkthrough import DemoSettings, Walkthrough
from cli.exit_codes import EXIT_DONE

FLIGHTS_MIN: Final = 10


@click.command(
    epilog=(
        "Exit codes: 0 nothing was lost and Spark counted the same number; 1 a message was lost "
        "or a step failed; 2 refused; 3 nothing was lost, but Spark could not run (no Java); "
        "130 interrupted."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
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
def demo(flights: int, storage_path: Path | None, out: Path | None, keep: bool) -> int:
    """Publish real flights, kill the broker while they are consumed, count them with Spark.

    Starts a broker of its own on a free port. It needs nothing else. It removes its files at
    the end unless --keep is given; after a failure it keeps them.
    """
    if storage_path is not None and storage_path.exists() and any(storage_path.iterdir()):
        raise click.UsageError(f"--storage-path: {storage_path} is not empty")
    with _working_directory(keep=keep) as directory, _terminated_as_interrupted():
        settings = DemoSettings(
            flights=flights,
            directory=directory,
            storage_path=(storage_path or directory / "data").absolute(),
            out=(out or directory / "export").absolute(),
        )
        exit_code = Walkthrough(settings).run()
        if exit_code != EXIT_DONE:
            click.echo(f"kept for a look: {directory}")
            return exit_code
        if keep:
            click.echo(f"kept: {directory}")
        else:
            shutil.rmtree(directory)
    return exit_code


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
