"""Command line of this program, to start it again and to show it to the user."""

import os
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import amqp_server

_SETTINGS_PREFIX: Final = "AMQP_SERVER_"
_KERNEL_SETTINGS: Final = ("AMQP_SERVER_PURE_PYTHON", "AMQP_SERVER_REQUIRE_COMPILED")


def command_line(arguments: Sequence[str]) -> list[str]:
    """Return program and arguments of an `amqp-server` with this interpreter.

    `-P` keeps the current directory off the import path: it may contain another `cli`.
    """
    return [sys.executable, "-P", "-m", "amqp_server", *arguments]


def shown(arguments: Sequence[str]) -> str:
    """Return the same command as a user would type it."""
    return shlex.join(["amqp-server", *arguments])


def environment() -> dict[str, str]:
    """Return this process's environment without settings of the server.

    A command that the demo shows must have all settings of the process. If the code is not
    installed but runs from a source tree, that tree is put on the import path.
    """
    inherited = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(_SETTINGS_PREFIX) or name in _KERNEL_SETTINGS
    }
    home = Path(amqp_server.__file__).resolve().parent.parent
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    if home not in installed:
        inherited["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(home), os.environ.get("PYTHONPATH", "")])
        )
    return inherited
