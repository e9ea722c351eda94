"""What the commands share that read a data directory's files: its option, codes and refusals."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from amqp_server.errors import StartupError
from amqp_server.start_report import Outcome
from appendlog import LogError
from cli.command_failure import CommandFailedError
from cli.exit_codes import EXIT_FAILED
from metadata.errors import MetadataError
from offsets.errors import OffsetsError

EXIT_CODES: Final = {
    Outcome.CLEAN: 0,
    Outcome.TORN: 3,
    Outcome.DAMAGED: 4,
    Outcome.UNOPENED: 5,
}
EXIT_CODES_TEXT: Final = (
    "Exit codes: 0 clean, 3 torn tails only (normal after a crash), 4 damage, 5 a queue or "
    "definition that cannot be opened, 2 refused (no data directory, in use, another format), "
    "1 anything else."
)
HELP: Final = {"help_option_names": ["-h", "--help"]}

data_directory_option = click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    default="./data",
    envvar="AMQP_SERVER_STORAGE_PATH",
    show_default=True,
    help="Data directory of the server.",
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the world did wrong into one line and an exit code; keep the log quiet.

    What the log would say is what these commands tell themselves.

    Raises:
        CommandFailedError: Code 2 when the data directory cannot be used at all, else 1.
    """
    logging.disable(logging.CRITICAL)
    try:
        yield
    except StartupError as error:
        raise CommandFailedError(error.message) from error
    except MetadataError as error:
        raise CommandFailedError(str(error)) from error
    except (LogError, OffsetsError) as error:
        raise CommandFailedError(str(error), EXIT_FAILED) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CommandFailedError(f"{where}{error.strerror or error}", EXIT_FAILED) from error
    finally:
        logging.disable(logging.NOTSET)
