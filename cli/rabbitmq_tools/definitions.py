"""Verbs that export and import definitions, as `amqp-server definitions` does."""

from __future__ import annotations

import json
import os
import sys

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import DATA, SOFTWARE, ToolFailedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call


def export_definitions(call: Call) -> None:
    """Write the definitions to a file, or to standard output."""
    path = call.arguments[0] if call.arguments else "-"
    directory = os.path.dirname(path) or "."  # noqa: PTH120 - `pathlib` takes long to import
    if not os.path.isdir(directory):  # noqa: PTH112
        raise _bad(f"Directory {directory} does not exist")
    if path != "-":
        call.banner(f'Exporting definitions in JSON to a file at "{path}" ...')
    made: dict[str, Any] = {}
    parts = call.server.parts("definitions.export", {"vhost": "", "with_head": True})
    while True:
        try:
            report = next(parts)
        except StopIteration as end:
            # Programs expect every section, also an empty one.
            made = {**made, **{name: made.get(name, []) for name in end.value}}
            break
        if "head" in report:
            made.update(report["head"])
        else:
            made.setdefault(report["section"], []).extend(report["entries"])
    content = json.dumps(made, separators=(",", ":"), ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(content)
        return
    try:
        # It has the hashes of passwords.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
    except OSError as error:
        raise _bad(f"{path}: {error.strerror}") from error


def import_definitions(call: Call) -> None:
    """Import the definitions in a file, or those on standard input."""
    from pathlib import Path

    from amqp_server.definitions_file.entries_file import write_entries
    from amqp_server.definitions_file.errors import DefinitionsError
    from amqp_server.definitions_file.file_content import hash_passwords, read_definitions

    path = call.arguments[0] if call.arguments else "-"
    if path == "-":
        call.banner("Importing definitions in JSON from standard input ...")
        path = "/dev/stdin"
    elif not os.path.exists(path):  # noqa: PTH110
        raise _bad(f"File {path} does not exist")
    else:
        call.banner(f'Importing definitions in JSON from a file at "{path}" ...')
    storage_path = Path(call.server.storage_path)
    name = None
    try:
        found = read_definitions(Path(path))
        _check_whole(is_single=found.is_single_vhost)
        name = write_entries(storage_path, list(hash_passwords(found.entries)))
        call.ask(
            "definitions.import",
            file=name,
            vhost="",
            rabbit_version=found.rabbit_version,
            dry_run=False,
        )
    except DefinitionsError as error:
        raise ToolFailedError(DATA, str(error)) from error
    except OSError as error:
        raise ToolFailedError(SOFTWARE, f"{error.filename}: {error.strerror}") from error
    except RefusedError as refused:
        mistakes = refused.details.get("mistakes") or [refused.reason]
        raise ToolFailedError(DATA, "\n".join(map(str, mistakes))) from refused
    finally:
        if name is not None:
            (storage_path / name).unlink(missing_ok=True)


def _check_whole(*, is_single: bool) -> None:
    if is_single:
        raise ToolFailedError(DATA, "the file has the definitions of one vhost only")


def _bad(reason: str) -> UsageError:
    error = UsageError(f"Bad argument: {reason}")
    error.code = DATA
    return error
