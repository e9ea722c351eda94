"""The command `amqp-server recover`: recovery without a server, and the report of the last one."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.recovery.start_report import Outcome
from amqp_server.recovery.start_report_file import REPORT_NAME, load_report
from cli.command_failure import CommandFailedError
from cli.data_directory import (
    EXIT_CODES,
    EXIT_CODES_TEXT,
    HELP,
    data_directory_option,
    refusals,
)
from cli.display import shown, shown_bytes

QUEUES_SHOWN: Final = 50
RANGES_SHOWN: Final = 3


@click.command(
    context_settings=HELP,
    epilog=f"Example: amqp-server recover --dry-run --storage-path /data. {EXIT_CODES_TEXT}",
)
@click.option(
    "--dry-run", is_flag=True, help="Only report what a start would find; change nothing."
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Continue without the logs, definitions or checkpoints that are gone.",
)
@click.option("--last", is_flag=True, help="Only show the report of the last start.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@data_directory_option
def recover(
    storage_path: Path, *, dry_run: bool, accept_loss: bool, last: bool, as_json: bool
) -> int:
    """Recover a data directory as a start of the server does, and stop.

    Cuts torn tails, copies damage aside, applies committed transactions, writes a checkpoint, and
    reports the findings for each queue. No server may use the directory, except with --last.

    A start is refused if a whole part of the directory is missing that a server had there, such as
    logs on a disk that is not mounted. With --accept-loss that part is abandoned permanently: its
    contents are reported as lost, and the next start continues without it.
    """
    if last and (dry_run or accept_loss):
        other = "--dry-run" if dry_run else "--accept-loss"
        raise click.UsageError(f"{other} and --last exclude each other")
    with refusals():
        if last:
            report = _last(storage_path)
        else:
            report = _recover(storage_path, is_dry_run=dry_run, accepts_loss=accept_loss)
    if as_json:
        click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    else:
        _print(report)
    return EXIT_CODES[Outcome(report["outcome"])]


def _recover(storage_path: Path, *, is_dry_run: bool, accepts_loss: bool) -> dict[str, Any]:
    # Imported here: --last and --help need no server.
    from amqp_server.offline_recovery import recover_directory
    from amqp_server.recovery.missing_parts import ALL_PARTS

    accepted = ALL_PARTS if accepts_loss else ()
    return recover_directory(storage_path, is_dry_run=is_dry_run, accepted=accepted).as_json()


def _last(storage_path: Path) -> dict[str, Any]:
    try:
        return load_report(storage_path)
    except FileNotFoundError:
        raise CommandFailedError(
            f"no recovery report in {storage_path}: no server has started on it, or it is not a "
            "data directory"
        ) from None
    except NotADirectoryError:
        raise CommandFailedError(f"{storage_path}: not a directory") from None
    except ValueError as error:
        raise CommandFailedError(f"{storage_path / REPORT_NAME}: {error}") from error


def _print(report: dict[str, Any]) -> None:
    totals = report["totals"]
    metadata = report["metadata"]
    checkpoint = report["checkpoint"]
    redo = report["redo"]
    would = " (dry run: nothing was changed)" if report["is_dry_run"] else ""
    click.echo(f"outcome: {report['outcome']}{would}, {report['written_at']}")
    # Reports of earlier versions do not have it.
    for part in report.get("given_up", []):
        click.echo(f"given up: {shown(part['text'])}")
    click.echo(f"last stop: {_last_stop(report)}")
    click.echo(
        f"queues: {totals['queues']} opened, {totals['unopened_queues']} not; "
        f"{totals['segments']} segments, {totals['records']} records, {totals['ready']} ready"
    )
    click.echo(
        f"scanned {shown_bytes(totals['scanned_bytes'])} in {report['seconds']:.3f} s, "
        f"cut {shown_bytes(totals['cut_bytes'])}, "
        f"damaged {totals['damaged_chunks']} places of {shown_bytes(totals['damaged_bytes'])}, "
        f"lost {totals['lost_offsets']} offsets"
    )
    click.echo(
        f"checkpoint: generation {checkpoint['generation']}, {checkpoint['rounds']} rounds from "
        f"{', '.join(checkpoint['sources']) or 'no file'}{_faults(checkpoint)}"
    )
    click.echo(
        f"redo journal: {redo['transactions']} transactions, {redo['left']} left{_faults(redo)}"
    )
    click.echo(f"metadata: {metadata['documents']} documents")
    for unreadable in metadata["unreadable"]:
        click.echo(f"  unreadable {shown(unreadable['path'])}: {shown(unreadable['reason'])}")
        if effect := unreadable.get("effect"):
            click.echo(f"    until it is mended or accepted as lost: {effect}")
    if report["removed_logs"]:
        click.echo(f"logs of deleted queues: {report['removed_logs']} removed")
    # Reports of earlier versions have none of these.
    for path in report.get("quarantined", ()):
        click.echo(f"  belongs to no queue, set aside: {shown(path)}")
    for path in report.get("strangers", ()):
        click.echo(f"  no log of this server, left alone: {shown(path)}")
    _print_queues(report)


def _last_stop(report: dict[str, Any]) -> str:
    if report["was_clean_stop"]:
        return "clean"
    # A server writes its first checkpoint when it starts: without one, none has run.
    is_new = not report["checkpoint"]["generation"] and not report["totals"]["queues"]
    return "none, the directory was new" if is_new else "a crash"


def _print_queues(report: dict[str, Any]) -> None:
    queues = report["queues"][:QUEUES_SHOWN]
    if queues:
        click.echo(
            f"{'OUTCOME':<9}{'SEGMENTS':>9}{'SCANNED':>11}{'RECORDS':>11}{'READY':>11}  QUEUE"
        )
    for queue in queues:
        name = f"{shown(queue['name'])} in {shown(queue['vhost'])}"
        if queue["is_delay_queue"]:
            name = f"(delayed messages of exchange) {name}"
        if "error" in queue:
            click.echo(f"{queue['outcome']:<9}{'':42}  {name}: {shown(queue['error'])}")
            continue
        click.echo(
            f"{queue['outcome']:<9}{queue['segments']:>9}"
            f"{shown_bytes(queue['scanned_bytes']):>11}{queue['records']:>11}{queue['ready']:>11}"
            f"  {name}{_findings(queue)}"
        )
    more = len(report["queues"]) - len(queues) + report["queues_left_out"]
    if more:
        click.echo(f"... and {more} more queues")


def _findings(queue: dict[str, Any]) -> str:
    findings = []
    if queue["cut_bytes"]:
        findings.append(f"cut {shown_bytes(queue['cut_bytes'])}")
    if queue["damaged_chunks"]:
        findings.append(f"{queue['damaged_chunks']} damaged, {shown_bytes(queue['damaged_bytes'])}")
    findings += [f"not of this log: {name}" for name in queue.get("foreign_files", ())]
    if queue["lost"]:
        ranges = ", ".join(f"[{start}, {end})" for start, end in queue["lost"][:RANGES_SHOWN])
        more = ", ..." if len(queue["lost"]) > RANGES_SHOWN else ""
        findings.append(f"lost {queue['lost_offsets']} offsets: {ranges}{more}")
    if queue.get("ahead_seconds"):  # missing in reports of older versions
        findings.append(f"last append time {queue['ahead_seconds']:.0f} s ahead of the clock")
    return f": {'; '.join(findings)}" if findings else ""


def _faults(found: dict[str, Any]) -> str:
    findings = [f"torn {shown_bytes(found['torn_bytes'])}"] if found["torn_bytes"] else []
    findings += [f"damaged {name}" for name in found["damaged_files"]]
    return f" ({'; '.join(findings)})" if findings else ""
