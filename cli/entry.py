"""Entry point of the installed command: handles Ctrl-C even during the imports."""

import cli.parent  # noqa: F401 - first of all: the parent may end during the imports
from cli.exit_codes import EXIT_INTERRUPTED


def main() -> int:
    """Run the command line of the process; see `cli.main.main`."""
    try:
        from cli.main import main as run_command

        return run_command()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
