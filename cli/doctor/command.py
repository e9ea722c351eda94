"""The click command: the server's options, output, exit codes."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import orjson

from amqp_server.base.config import ServerConfig
from cli.data_directory import HELP
from cli.default_user import default_user_values
from cli.doctor.access import check_access, check_user
from cli.doctor.certificates import check_named_files
from cli.doctor.clock import check_clock
from cli.doctor.directory import check_directory, check_file_system, check_room
from cli.doctor.disk_syncs import check_disk_syncs
from cli.doctor.finding import Finding, State, warning
from cli.doctor.memory import check_memory
from cli.doctor.open_files import check_open_files
from cli.doctor.ports import check_ports
from cli.doctor.processor import check_processor
from cli.doctor.versions import check_data_format, check_program
from cli.exit_codes import EXIT_DONE, EXIT_FAILED
from cli.main import command as server_command
from cli.management_ports import default_ports
from cli.settings import ServerOption, build_config, rabbitmq_translation, unknown_variables

_LEFT_OUT: Final = ("ephemeral",)
_WIDTH: Final = 100
_COLOURS: Final = {State.OK: "green", State.WARNING: "yellow", State.ERROR: "red"}


def _doctor(ctx: click.Context, /, **values: Any) -> int:  # noqa: ANN401 - each has the type of its option
    """Check this machine and the data directory, and say what to change.

    It takes the server's options, environment variables and files, and looks at what a server with
    them would need: descriptors, disk, clock, memory, ports, permissions, certificates. Call it as
    the user of the server. A server may be running; nothing is changed.
    """
    as_json = values.pop("as_json")
    values = {**values, "optional_ports": default_ports(ctx)}
    config = build_config(ctx, default_user_values(ctx, values))
    found = [*_settings(ctx), *_checks(config)]
    if as_json:
        rows = [
            {
                "state": each.state,
                "subject": each.subject,
                "text": each.text,
                "advice": each.advice,
            }
            for each in found
        ]
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        _write(found)
    has_errors = any(each.state is State.ERROR for each in found)
    return EXIT_FAILED if has_errors else EXIT_DONE


def _settings(ctx: click.Context) -> Iterator[Finding]:
    translation = rabbitmq_translation(ctx)
    lines = [*unknown_variables(ctx, os.environ), *(translation.warnings if translation else ())]
    for line in lines:
        yield warning("settings", line, "remove it, or correct it")


def _checks(config: ServerConfig) -> Iterator[Finding]:
    """Yield the results of all checks, those of the program first."""
    path = config.storage_path
    yield from check_program()
    yield from check_processor()
    yield from check_memory(config)
    yield from check_open_files(config)
    yield from check_clock(path)
    yield from check_directory(path)
    yield from check_data_format(path)
    yield from check_file_system(path)
    yield from check_room(config)
    yield from check_disk_syncs(path)
    yield from check_ports(config)
    yield from check_named_files(config)
    yield from check_access(config)
    yield from check_user()


def _write(found: Sequence[Finding]) -> None:
    states = max(len(state) for state in State)
    subjects = max(len(each.subject) for each in found)
    indent = " " * (states + subjects + 4)
    for each in found:
        state = click.style(each.state.ljust(states), fg=_COLOURS.get(each.state))
        # No option and no path is divided.
        lines = textwrap.wrap(
            each.text, _WIDTH - len(indent), break_on_hyphens=False, break_long_words=False
        )
        if each.advice:
            # On one line, however long: it may be a command to copy.
            lines.append(f"-> {each.advice}")
        click.echo(f"{state}  {each.subject.ljust(subjects)}  {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{indent}{line}")
    errors = sum(each.state is State.ERROR for each in found)
    warnings = sum(each.state is State.WARNING for each in found)
    click.echo(f"\n{_counted(errors, 'error')}, {_counted(warnings, 'warning')}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


doctor = click.Command(
    "doctor",
    callback=click.pass_context(_doctor),
    params=[
        *(
            param
            for param in server_command.params
            if isinstance(param, ServerOption) and param.key not in _LEFT_OUT
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Write a JSON array of objects."),
    ],
    help=_doctor.__doc__,
    epilog=(
        "Example: amqp-server doctor --config /etc/amqp-server.toml. Exit codes: 0 a server can "
        "start and take messages, whatever the warnings; 1 it cannot; 2 refused (settings that no "
        "server starts with)."
    ),
    context_settings={**HELP, "show_default": True},
)
