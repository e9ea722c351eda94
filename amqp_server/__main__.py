"""Runs the command `amqp-server` as `python -m amqp_server`."""

import sys
from pathlib import Path

import amqp_server


def _leave_current_directory_out() -> None:
    """Take the current directory off the import path, unless the packages are in it.

    `python -m` puts it first. Our packages have plain names, so Python would import a user's own
    `cli/` or `metadata/` folder in their place.
    """
    home = Path(amqp_server.__file__).resolve().parent.parent
    if not sys.flags.safe_path and sys.path and Path(sys.path[0]).resolve() != home:
        del sys.path[0]


if __name__ == "__main__":
    _leave_current_directory_out()

    from cli.entry import main

    sys.exit(main())
