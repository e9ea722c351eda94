"""`python -m amqp_server`: the command `amqp-server` under another name."""

import sys
from pathlib import Path

import amqp_server


def _leave_current_directory_out() -> None:
    """Take the current directory off the import path, unless we live there.

    `python -m` puts it first, and our rooms have plain names: a user's own `cli/` or `metadata/`
    folder would be imported in their place.
    """
    home = Path(amqp_server.__file__).resolve().parent.parent
    if not sys.flags.safe_path and sys.path and Path(sys.path[0]).resolve() != home:
        del sys.path[0]


if __name__ == "__main__":
    _leave_current_directory_out()

    from cli.main import main

    sys.exit(main())
