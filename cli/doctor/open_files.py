"""Open files: the limit of this process, against what the settings need."""

import resource
from collections.abc import Iterator
from typing import Final

from amqp_server.base.config import ServerConfig
from amqp_server.upkeep.open_file_limit import HOW_TO_RAISE, OPEN_FILES_MIN, OTHERS
from appendlog.files.open_files import CACHES_FILES_MAX
from cli.doctor.finding import Finding, error, ok, warning

SUBJECT: Final = "open files"


def check_open_files(config: ServerConfig) -> Iterator[Finding]:
    """Yield whether the connections of the settings fit in the limit, which a server raises."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.connections_max + CACHES_FILES_MAX + OTHERS
    need = f"{config.connections_max} connections and the logs need {wanted}"
    if limit == resource.RLIM_INFINITY:
        yield ok(SUBJECT, f"no limit; {need}")
    elif limit < OPEN_FILES_MIN:
        yield error(
            SUBJECT, f"the limit is {limit}, a server needs {OPEN_FILES_MIN}", _advice(wanted)
        )
    elif limit < wanted:
        yield warning(SUBJECT, f"the hard limit is {limit}; {need}", _advice(wanted))
    else:
        yield ok(SUBJECT, f"the hard limit is {limit}; {need}")


def _advice(wanted: int) -> str:
    return f"{HOW_TO_RAISE} to {wanted}, or lower --max-connections"
