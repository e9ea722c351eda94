"""The command `amqp-server export vacuum`: removes files left by killed exports."""

from dataclasses import asdict
from datetime import UTC, datetime

import click
import orjson

from appendlog.spark.exporting.committing.vacuum import Orphan, vacuum_queue
from cli.data_directory import HELP
from cli.display import shown, shown_bytes
from cli.export_output import open_output, output_options, output_refusals
from cli.store_options import reach_stores
from cli.units import DURATION


@click.command(
    context_settings=HELP | {"show_default": True},
    epilog=(
        "Example: amqp-server export vacuum --out ./lake --dry-run. "
        "Exit codes: 0 done, 2 refused, 1 anything else."
    ),
)
@output_options
@click.option(
    "--older-than",
    "older_than_seconds",
    type=DURATION,
    default="24h",
    help="Without locks: age at which an uncommitted run counts as dead.",
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only print what would be removed.")
def vacuum(
    out: str,
    queue: str | None,
    older_than_seconds: float,
    store_options: tuple[str, ...],
    *,
    as_json: bool,
    is_dry_run: bool,
) -> int:
    """Remove files of killed exports; never a file that belongs to the output.

    The files of a running export stay: in a directory, a lock shows that it is running.
    """
    with output_refusals():
        _, queues = open_output(out, queue, reach_stores(store_options, out=out))
        for manifests in queues:
            now = datetime.now(UTC)
            report = vacuum_queue(manifests, older_than_seconds, now, is_dry_run=is_dry_run)
            for verb, orphans in (
                ("would remove" if is_dry_run else "removed", report.removed),
                ("left", report.spared),
            ):
                for orphan in orphans:
                    _write(orphan, verb, as_json=as_json)
            if not as_json:
                freed = sum(orphan.size_bytes for orphan in report.removed)
                verb = "would remove" if is_dry_run else "removed"
                click.echo(
                    f"{shown(manifests.folder)}: {verb} {len(report.removed)} files, "
                    f"{shown_bytes(freed)}; left {len(report.spared)}"
                )
    return 0


def _write(orphan: Orphan, verb: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps({"action": verb.replace(" ", "_"), **asdict(orphan)}).decode())
    else:
        size = shown_bytes(orphan.size_bytes)
        click.echo(f"{verb} {shown(orphan.path)} ({size}): {orphan.reason}")
