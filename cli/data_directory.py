"""Common parts of the commands that read a data directory: option, exit codes and errors."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from amqp_server.base.errors import StartupError
from amqp_server.recovery.start_report import Outcome
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
    "Exit codes: 0 no damage, 3 only torn tails (normal after a crash), 4 damage, 5 a queue or "
    "definition cannot be opened, 2 refused (not a data directory, in use, or another format), "
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
    """Turn expected errors into one line and an exit code; silence the log.

    These commands report themselves what the log would say.

    Raises:
        CommandFailedError: Code 2 if the data directory cannot be used at all, otherwise 1.
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
