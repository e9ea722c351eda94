"""The command `amqp-server definitions`: definitions in and out, as RabbitMQ's files."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.control.client import ControlError, UnreachableError, follow
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.export_form import definitions_file, for_rabbitmq
from amqp_server.definitions_file.file_content import (
    CLUSTER_SECTIONS,
    hash_passwords,
    read_definitions,
)
from cli.control import EXIT_CODES, RequestFailedError, check_utf8, storage_path_option
from cli.definitions_import import import_entries
from cli.display import shown
from cli.exit_codes import EXIT_FAILED, EXIT_REFUSED

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_OUTCOMES: Final = ("created", "changed", "equal", "different", "skipped")


@click.group(
    invoke_without_command=True,
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server definitions export all.json; amqp-server definitions import "
        f"rabbit.json --dry-run. {EXIT_CODES}"
    ),
)
@click.pass_context
def definitions(ctx: click.Context) -> None:
    """Export and import definitions of the running server.

    A definitions file has the form of RabbitMQ's definitions.json: users, permissions, virtual
    hosts, exchanges, queues, bindings, policies, limits and parameters; no messages.
    """
    if ctx.invoked_subcommand is None:
        raise click.UsageError("write what to do: export or import")


@definitions.command(
    "export",
    context_settings=_HELP,
    epilog=f"Example: amqp-server definitions export --for rabbitmq rabbit.json. {EXIT_CODES}",
)
@click.argument("file", default="-", type=click.Path(path_type=Path))
@click.option("--vhost", callback=check_utf8, help="Export this virtual host only.")
@click.option(
    "--for",
    "product",
    type=click.Choice(["rabbitmq"]),
    help="Write what RabbitMQ 3.10 imports; names the users whose passwords it cannot read.",
)
@storage_path_option
def export_definitions(
    file: Path, vhost: str | None, product: str | None, storage_path: Path
) -> int:
    """Write the definitions to FILE; `-` (the default) is standard output.

    The file replaces an earlier one at once, and only you can read it: it has password hashes.
    """
    sections: dict[str, list[dict[str, Any]]] = {}

    def take(progress: dict[str, Any]) -> None:
        sections.setdefault(progress["section"], []).extend(progress["entries"])

    with _failures():
        follow(storage_path, "definitions.export", {"vhost": vhost or ""}, take)
    made = definitions_file(sections, vhost)
    if product == "rabbitmq":
        for name in for_rabbitmq(made):
            click.echo(
                f"user '{shown(name)}' has no password there: RabbitMQ cannot read its hash",
                err=True,
            )
    content = orjson.dumps(made, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if str(file) == "-":
        click.echo(content, nl=False)
    else:
        _write(file, content)
    return 0


@definitions.command(
    "import",
    context_settings=_HELP,
    epilog=(
        "Examples: amqp-server definitions import rabbit.json --dry-run; amqp-server definitions "
        f"import orders.json --vhost orders. {EXIT_CODES}"
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check the file and say what would be done.")
@click.option(
    "--vhost", callback=check_utf8, help="Virtual host that gets the definitions of another one."
)
@click.option("--json", "as_json", is_flag=True, help="Write the report as a JSON object.")
@storage_path_option
def import_definitions(
    file: Path, dry_run: bool, vhost: str | None, as_json: bool, storage_path: Path
) -> int:
    """Import the definitions in FILE, all or none; a directory means its files *.json.

    Nothing is removed. Users, permissions, policies and parameters are overwritten; queues and
    exchanges that exist stay as they are, and the report names those that differ.
    """
    try:
        found = read_definitions(file)
        _check_vhost(found.is_single_vhost, vhost, {each.section for each in found.entries})
        entries = list(hash_passwords(found.entries))
    except DefinitionsError as error:
        raise RequestFailedError(str(error), EXIT_FAILED) from error
    shows_progress = sys.stderr.isatty()

    def tell(progress: dict[str, Any]) -> None:
        if shows_progress:
            click.echo(f"\r{progress['entries']} of {len(entries)} entries", err=True, nl=False)

    with _failures():
        try:
            report = import_entries(
                storage_path,
                entries,
                rabbit_version=found.rabbit_version,
                is_dry_run=dry_run,
                vhost=vhost or "",
                on_progress=tell,
            )
        except OSError as error:
            reason = f"{error.filename or storage_path}: {error.strerror or error}"
            raise RequestFailedError(reason, EXIT_REFUSED) from error
        finally:
            if shows_progress:
                click.echo("\r\033[K", err=True, nl=False)
    if as_json:
        click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        _show(report, is_dry_run=dry_run)
    return 0


def _check_vhost(is_single: bool, vhost: str | None, sections: set[str]) -> None:
    if is_single and vhost is None:
        raise DefinitionsError(
            "the file has the definitions of one vhost: write --vhost NAME, which must exist"
        )
    if vhost is not None and (found := sections.intersection(CLUSTER_SECTIONS)):
        raise DefinitionsError(
            f"the file has '{min(found)}', so it is one of a whole server: leave out --vhost"
        )


@contextmanager
def _failures() -> Iterator[None]:
    """Turn a refusal into one line and an exit code; its other mistakes go before it.

    Raises:
        RequestFailedError: The server refused, or could not be asked.
    """
    try:
        yield
    except UnreachableError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except ControlError as error:
        for mistake in error.details.get("mistakes", [])[1:]:
            click.echo(shown(str(mistake)), err=True)
        raise RequestFailedError(error.reason, EXIT_FAILED, error.kind) from error


def _show(report: dict[str, Any], *, is_dry_run: bool) -> None:
    """Write the table of counts, then what an operator should look at."""
    if is_dry_run:
        click.echo("dry run: nothing has changed")
    header = "".join(f"{name.upper():>11}" for name in _OUTCOMES)
    click.echo(f"{header}  SECTION")
    for section, counts in report["sections"].items():
        click.echo("".join(f"{counts[name]:>11}" for name in _OUTCOMES) + f"  {section}")
    for line in report["different"]:
        click.echo(f"different, stays as it is: {shown(line)}")
    for line in report["skipped"]:
        click.echo(f"skipped: {shown(line)}")


def _write(file: Path, content: bytes) -> None:
    """Replace a file that only its owner can read.

    Raises:
        RequestFailedError: It cannot be written.
    """
    temporary = file.with_name(f".{file.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        temporary.replace(file)
    except OSError as error:
        raise RequestFailedError(f"{file}: {error.strerror or error}", EXIT_FAILED) from error
