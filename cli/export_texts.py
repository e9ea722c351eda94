"""Texts and JSON about the export of a queue."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from appendlog.layout.headers import MALFORMED_KEY
from appendlog.spark.exporting.export import QueueReport
from appendlog.spark.exporting.export_plan import QueuePlan
from appendlog.spark.exporting.files.quarantine import quarantine_folder
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import Include, Settled
from cli.display import rough_size

GAPS_SHOWN: Final = 3

Json = dict[str, Any]


def nothing_text(plan: QueuePlan) -> str:
    """Return the text for a queue without new messages."""
    queue = plan.log.queue
    job = plan.job
    if job.include != Include.ALL:
        return (
            f"nothing new in queue {queue}: what is {job.include} of offsets "
            f"[{job.start}, {job.end}) is exported; {_as_of(plan.settled)}"
        )
    if job.start < job.end:
        return (
            f"nothing new in queue {queue}: the log is durable up to offset "
            f"{plan.durable_end}, and [{job.start}, {job.end}) is exported"
        )
    return (
        f"nothing new in queue {queue}: no offset at or above {job.start}, "
        f"the log is durable up to {plan.durable_end}"
    )


def report_text(plan: QueuePlan, report: QueueReport, where: str, seconds: float) -> str:
    """Return the text of a result, with a line for everything unexpected."""
    queue = plan.log.queue
    ranges = plan.job.ranges
    first, last = ranges[0][0], ranges[-1][1]
    lines = [
        f"exported {report.rows} messages, offsets [{first}, {last}) of queue {queue}, "
        f"to {where}: {report.files} files, {rough_size(report.size_bytes)}, {seconds:.1f} s"
    ]
    lines += _scope_notes(plan)
    if report.excluded:
        lines.append(
            f"note: {report.excluded} offsets between them are left out for good: a later run "
            f"does not add them{_floor_advice(plan)}"
        )
    if report.missing:
        shown = ", ".join(f"[{start}, {end})" for start, end in report.gaps[:GAPS_SHOWN])
        more = ", ..." if len(report.gaps) > GAPS_SHOWN else ""
        lines.append(f"note: {report.missing} offsets are not in the log: {shown}{more}")
    if report.corrupt:
        lines.append(
            f"note: {report.corrupt} offsets are in damaged parts of the log, whose bytes are in "
            f"{where}/{quarantine_folder(plan.log)}"
        )
    if report.undecodable:
        lines.append(
            f"note: {report.undecodable} messages have headers or properties that cannot be "
            "decoded: such properties are null, and the octets of such headers are in the header "
            f"'{MALFORMED_KEY}'"
        )
    return "\n".join(lines)


def plan_text(plan: QueuePlan) -> str:
    """Return the text of a plan."""
    if plan.is_empty:
        return nothing_text(plan)
    shown = ", ".join(f"[{start}, {end})" for start, end in plan.job.ranges[:GAPS_SHOWN])
    more = ", ..." if len(plan.job.ranges) > GAPS_SHOWN else ""
    lines = [
        f"queue {plan.log.queue}: {plan.offset_count} offsets, {shown}{more}; "
        f"{rough_size(plan.size_bytes)} of log in {len(plan.pieces)} tasks"
    ]
    lines += [f"  {folder}" for folder in _folders(plan)]
    lines += _scope_notes(plan)
    for start, end in plan.lost:
        lines.append(f"note: offsets [{start}, {end}) are gone from the log and will be a gap")
    return "\n".join(lines)


def log_json(log: QueueLog) -> Json:
    """Return the identity of a queue."""
    return {"vhost": log.vhost, "queue": log.queue, "incarnation": str(log.incarnation)}


def plan_json(plan: QueuePlan) -> Json:
    """Return a plan, before or after its execution."""
    return {
        **log_json(plan.log),
        "start": plan.job.start,
        "end": plan.job.end,
        "ranges": _lists(plan.job.ranges),
        "offsets": plan.offset_count,
        "include": plan.job.include,
        "log_start_offset": plan.log_start_offset,
        "durable_end": plan.durable_end,
        "log_bytes": plan.size_bytes,
        "lost": _lists(plan.lost),
        "checkpoint": _settled_json(plan.settled),
    }


def tasks_json(plan: QueuePlan) -> list[Json]:
    """Return the tasks of a plan."""
    return [
        {
            "start": piece.splits[0].start_offset,
            "end": piece.splits[-1].end_offset,
            "log_bytes": piece.size_bytes,
            "folder": piece.part.folder,
        }
        for piece in plan.pieces
    ]


def report_json(report: QueueReport) -> Json:
    """Return the result of a plan."""
    return {
        "files": report.files,
        "rows": report.rows,
        "bytes": report.size_bytes,
        "missing": report.missing,
        "gaps": _lists(report.gaps),
        "corrupt": report.corrupt,
        "excluded": report.excluded,
        "undecodable": report.undecodable,
    }


def _scope_notes(plan: QueuePlan) -> list[str]:
    """Return notes about messages that a run leaves out for normal reasons."""
    notes = []
    first = plan.job.ranges[0][0]
    # If the output has an earlier part, the offsets in between would be a loss.
    if plan.log_start_offset and first == plan.log_start_offset and not plan.job.covered:
        notes.append(
            f"note: the log begins at offset {first}; what was before it is settled and removed "
            "(--retain-for of the server keeps it longer)"
        )
    if plan.settled is not None:
        notes.append(f"note: {plan.job.include} messages only, {_as_of(plan.settled)}")
    return notes


def _folders(plan: QueuePlan) -> list[str]:
    return list(dict.fromkeys(piece.part.folder for piece in plan.pieces if piece.part.folder))


def _lists(ranges: Sequence[tuple[int, int]]) -> list[list[int]]:
    return [list(each) for each in ranges]


def _as_of(settled: Settled | None) -> str:
    if settled is None or not settled.generation:
        return "there is no checkpoint: nothing is known to be settled"
    return f"as of checkpoint {settled.generation}.{settled.rounds}, {_time_text(settled)}"


def _floor_advice(plan: QueuePlan) -> str:
    """Return advice to end at the ack floor, if that would have left nothing out."""
    if plan.job.include != Include.ACKED or plan.settled is None or not plan.settled.ranges:
        return ""
    start, floor = plan.settled.ranges[0]
    return f" (--until {floor} would have left none out)" if start == 0 else ""


def _settled_json(settled: Settled | None) -> Json | None:
    if settled is None:
        return None
    return {
        "generation": settled.generation,
        "rounds": settled.rounds,
        "written_at": _time_text(settled) if settled.written_at_ns else None,
    }


def _time_text(settled: Settled) -> str:
    moment = datetime.fromtimestamp(settled.written_at_ns // 10**9, UTC)
    return moment.isoformat().replace("+00:00", "Z")
