"""Entry point of the command: before the long imports of all the rest.

It handles Ctrl-C even during the imports, and chooses the form of the loop's modules, which is
possible until one of them is imported.
"""

import sys

import cli.parent  # noqa: F401 - first of all: the parent may end during the imports
from amqp_server.compiled_loop import loop
from cli.exit_codes import EXIT_INTERRUPTED, EXIT_REFUSED


def main() -> int:
    """Run the command line of the process; see `cli.main.main`."""
    try:
        loop.use()
    except ImportError as error:
        print(f"amqp-server: error: {error}", file=sys.stderr)  # noqa: T201 - as `cli.main` does
        return EXIT_REFUSED
    try:
        from cli.main import main as run_command

        return run_command()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
