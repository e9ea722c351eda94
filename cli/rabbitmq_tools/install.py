"""The command `amqp-server install-rabbitmq-tools`: RabbitMQ's tools for this server."""

import os
import sys
from pathlib import Path
from typing import Final

import click
import orjson

import cli
from cli.command_failure import CommandFailedError
from cli.control import storage_path_option
from cli.exit_codes import EXIT_FAILED
from cli.rabbitmq_tools.verbs import TOOLS

_INTERPRETER_LINE_BYTES_MAX: Final = 127
_MARK: Final = "# Made by amqp-server install-rabbitmq-tools; may be replaced by it."
_SCRIPT: Final = """\
{first}
{mark}
import sys
sys.path += {paths!r}
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(encoding="utf-8", errors="backslashreplace")
from cli.rabbitmq_tools.main import run
sys.exit(run({tool!r}, {storage_path!r}, sys.argv[1:]))
"""


@click.command(
    "install-rabbitmq-tools",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: amqp-server install-rabbitmq-tools /opt/tools --storage-path /srv/data.",
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@storage_path_option
def install_rabbitmq_tools(directory: Path, storage_path: Path) -> int:
    """Write rabbitmqctl and RabbitMQ's other tools for this server into DIRECTORY.

    They ask the server of --storage-path, or of AMQP_SERVER_STORAGE_PATH when they are called. A
    tool that something else has put there is not replaced.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for tool in TOOLS:
            write_tool(directory / tool, tool, storage_path.absolute())
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        raise CommandFailedError(reason, EXIT_FAILED) from error
    click.echo(f"wrote {', '.join(TOOLS)} into {directory}")
    return 0


def _script(tool: str, storage_path: Path) -> str:
    # The project and its libraries may lie in two directories, as while one develops.
    found = (Path(cli.__file__).parent.parent, Path(orjson.__file__).parent.parent)
    return _SCRIPT.format(
        first=_first_lines(sys.executable),
        mark=_MARK,
        paths=list(dict.fromkeys(map(str, found))),
        tool=tool,
        storage_path=str(storage_path),
    )


def _first_lines(interpreter: str) -> str:
    """Return what makes the system run a script with an interpreter.

    Without `site`, and with nothing of the environment or the current directory: a tool starts in a
    third of the time, and does the same for every caller.
    """
    line = f"#!{interpreter} -IS"
    if len(line.encode()) <= _INTERPRETER_LINE_BYTES_MAX and " " not in interpreter:
        return line
    # Both the shell and Python read the next line, each in its own way.
    return f"#!/bin/sh\n'''exec' \"{interpreter}\" -IS \"$0\" \"$@\"\n' '''"


def write_tool(path: Path, tool: str, storage_path: Path) -> None:
    """Write a tool that asks one server.

    Args:
        path: Its file.
        tool: Its name, such as `rabbitmqctl`.
        storage_path: Data directory of the server, from the root.

    Raises:
        CommandFailedError: Something else has put a file there.
        OSError: It cannot be written.
    """
    if path.is_symlink() or (path.exists() and _MARK.encode() not in path.read_bytes()):
        reason = f"{path} is not of amqp-server: remove it first, or choose another directory"
        raise CommandFailedError(reason, EXIT_FAILED)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(_script(tool, storage_path))
    temporary.chmod(0o755)
    os.replace(temporary, path)  # noqa: PTH105 - atomic, by its name
