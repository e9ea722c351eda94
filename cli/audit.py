"""The command `amqp-server audit`: shows who changed what, from where and when."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import click

from amqp_server.audit.audit_files import DIRECTORY_NAME
from amqp_server.audit.entry import time_text
from amqp_server.audit.reading import AuditReader
from amqp_server.broker.age_text import age_ns
from cli.command_failure import CommandFailedError
from cli.control import check_utf8
from cli.data_directory import data_directory_option
from cli.display import shown
from cli.exit_codes import EXIT_REFUSED

FOLLOW_SECONDS: Final = 0.2
"""Seconds between two looks at the files with `--follow`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filter of the events that are shown.

    Attributes:
        since: Time of the first one, as text in UTC; empty for all.
        events: Patterns of names; empty for all.
        user: User; None for all.
        vhost: Virtual host; None for all.
    """

    since: str
    events: Sequence[str]
    user: str | None
    vhost: str | None

    def has(self, event: dict[str, Any]) -> bool:
        """Return whether an event is one of them."""
        return (
            str(event["time"]) >= self.since
            and (not self.events or any(_matches(event, each) for each in self.events))
            and self.user in (None, event["user"])
            and self.vhost in (None, event.get("vhost", ""))
        )


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Examples: amqp-server audit --since 1h; amqp-server audit --event queue.deleted --json; "
        "amqp-server audit --follow --event 'user.*'. Exit codes: 0 done, 2 there is no audit log, "
        "or it cannot be read."
    ),
)
@click.option("--follow", is_flag=True, help="Go on with new events until Ctrl-C.")
@click.option("--since", metavar="TIME", help="First time: 2026-11-22T12:00 (UTC), or an age: 1h.")
@click.option(
    "--event", "events", metavar="NAME", multiple=True, help="Only these events: queue.deleted."
)
@click.option("--user", callback=check_utf8, help="Only what this user did; os:0/root: a command.")
@click.option("--vhost", callback=check_utf8, help="Only in this virtual host.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@data_directory_option
def audit(
    storage_path: Path,
    *,
    follow: bool,
    since: str | None,
    events: tuple[str, ...],
    user: str | None,
    vhost: str | None,
    as_json: bool,
) -> int:
    """Show who created, deleted, purged or changed what, from where and when.

    Reads the files of the data directory; the server may be running or not. A pattern such as
    `queue.*` is a name of an event too.
    """
    since_ns = 0 if since is None else _since_ns(since)
    wanted = Wanted(time_text(since_ns) if since_ns else "", events, user, vhost)
    directory = storage_path / DIRECTORY_NAME
    if not directory.is_dir():
        raise CommandFailedError(
            f"there is no audit log in {storage_path}: no server has run there, or it runs with "
            "--audit-files 0",
            EXIT_REFUSED,
        )
    reader = AuditReader(storage_path, since_ns)
    try:
        _show_new(reader, wanted, as_json=as_json)
        while follow:
            time.sleep(FOLLOW_SECONDS)
            _show_new(reader, wanted, as_json=as_json)
    except PermissionError as error:
        reason = f"{error.filename}: {error.strerror}: only the server's user may read it"
        raise CommandFailedError(reason, EXIT_REFUSED) from error
    if reader.unreadable:
        click.echo(f"{reader.unreadable} lines are no events, and were left out", err=True)
    return 0


def _show_new(reader: AuditReader, wanted: Wanted, *, as_json: bool) -> None:
    for event in reader.new_events():
        if wanted.has(event):
            click.echo(json.dumps(event) if as_json else _row(event))


def _row(event: dict[str, Any]) -> str:
    """Return an event as a line for people."""
    who = event["user"] or "the server"
    where = " ".join(str(event[each]) for each in ("peer", "connection") if each in event)
    parts = [f"vhost={shown(str(event['vhost']))}"] if "vhost" in event else []
    if "object" in event:
        parts.append(shown(str(event["object"])))
    details = event.get("details", {})
    if isinstance(details, dict):
        parts += [
            f"{shown(name)}={_value(value)}" for name, value in details.items() if value != {}
        ]
    columns = (
        shown(str(event["time"])),
        f"{shown(str(event['event'])):<27}",
        f"{shown(str(who)):<12}",
        f"{shown(where):<22}",
        " ".join(parts),
    )
    return "  ".join(columns).rstrip()


def _value(value: object) -> str:
    return shown(value) if isinstance(value, str) else json.dumps(value)


def _matches(event: dict[str, Any], pattern: str) -> bool:
    return fnmatchcase(str(event["event"]), pattern)


def _since_ns(text: str) -> int:
    """Return a time in nanoseconds since 1970 UTC, from a time or an age.

    Raises:
        click.BadParameter: The text is neither.
    """
    age = age_ns(text.encode("utf-8", "surrogateescape"))
    if age is not None:
        return max(time.time_ns() - age, 1)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(int(moment.timestamp() * 1000) * 1_000_000, 1)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time: write an age (30s, 15m, 1h, 7D) or a time (2026-11-22T12:00, "
            "UTC unless it says otherwise)",
            param_hint="--since",
        ) from None
