"""The process of a `BrokerProcess`: a server that ends with the test run.

python -m amqp_server.testing.child PORT DIRECTORY
"""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

from amqp_server.compiled_loop import loop

EXIT_REFUSED: Final = 2


def main() -> int:
    """Run the server; return the exit code: 2 if it cannot start, with one line that says why."""
    parent = os.getppid()
    try:
        loop.use()
    except ImportError as error:
        print(error, file=sys.stderr)  # noqa: T201 - `BrokerProcess` shows it
        return EXIT_REFUSED
    # After that, for these import the loop.
    from amqp_server.base.config import ServerConfig
    from amqp_server.base.errors import StartupError
    from amqp_server.server_process import Surroundings, run
    from amqp_server.testing.parent_watch import end_of_parent

    watch = partial(end_of_parent, parent)
    port, directory = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    config = ServerConfig(
        port=int(port),
        storage_path=Path(directory),
        guest_from_anywhere=True,
        disk_free_limit_bytes=0,
        audit_files=0,
    )
    try:
        return run(config, Surroundings(watch=watch))
    except StartupError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 - `BrokerProcess` shows it
        return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main())
