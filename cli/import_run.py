"""Execution of `amqp-server import`, between an output and a running server."""

import difflib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.admin.imports.batch_file import BATCH_BYTES, BATCH_MESSAGES
from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.control.import_client import ImportClient, ImportProgress, ImportWork
from amqp_server.control.protocol import ErrorKind
from appendlog.spark.errors import AmqplogError
from appendlog.spark.importing.exported import Exported, ExportedQueue
from appendlog.spark.importing.message_import import (
    BatchBounds,
    Imported,
    count_messages,
    import_range,
    missing_ranges,
)
from appendlog.spark.importing.opening import open_exported
from appendlog.spark.planning.ranges import Range, offsets_in
from cli.control import RequestFailedError
from cli.display import shown
from cli.exit_codes import EXIT_FAILED, EXIT_NOTHING_NEW, EXIT_REFUSED
from cli.store_options import reach_stores

NEAR_MAX: Final = 3
SHOW_EVERY_SECONDS: Final = 0.5
_REFUSED: Final = frozenset((ErrorKind.NOT_FOUND, ErrorKind.INVALID_ARGUMENT, ErrorKind.IN_USE))
_BOUNDS: Final = BatchBounds(BATCH_BYTES, BATCH_MESSAGES)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Arguments of the command.

    Attributes:
        storage_path: Data directory of the server.
        queue: Queue that gets the messages.
        vhost: Virtual host of that queue.
        uri: Output of an export.
        store_options: Options of its object store, as texts KEY=VALUE; never shown.
        source_queue: Queue that was exported; None means the only one.
        source_vhost: Virtual host of the source queue; None means the only one that has it.
        since: First offset; None means all.
        until: End offset, exclusive; None means all.
        is_again: Whether to import messages again that were imported before.
        is_dry_run: Whether only to count messages.
    """

    storage_path: Path
    queue: str
    vhost: str
    uri: str
    store_options: tuple[str, ...] = field(repr=False)
    source_queue: str | None
    source_vhost: str | None
    since: int | None
    until: int | None
    is_again: bool
    is_dry_run: bool


def run(request: ImportRequest, *, as_json: bool) -> int:
    """Import, print the result, and return the exit code."""
    started = time.monotonic()
    try:
        reached_by = reach_stores(request.store_options, **{"from": request.uri})
        exported = open_exported(request.uri, reached_by.as_dict())
        source = _choose(exported.queues(), request)
        client = ImportClient(request.storage_path)
        progress = client.look(request.queue, vhost=request.vhost, source=source.identity)
        ranges = _ranges(source, progress, request)
        done = Imported()
        if request.is_dry_run:
            done = count_messages(exported, source, ranges)
        elif ranges:
            done = _import(client, exported, source, request)
    except UnreachableError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except ControlError as error:
        code = EXIT_REFUSED if error.kind in _REFUSED else EXIT_FAILED
        raise RequestFailedError(error.reason, code) from error
    except AmqplogError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    report = _report(request, source, ranges, done, time.monotonic() - started)
    click.echo(orjson.dumps(report).decode() if as_json else _summary(report))
    return 0 if ranges else EXIT_NOTHING_NEW


def _choose(queues: Sequence[ExportedQueue], request: ImportRequest) -> ExportedQueue:
    """Return the queue of the output to import.

    Raises:
        RequestFailedError: The queue is not there, or it is ambiguous.
    """
    name, vhost = request.source_queue, request.source_vhost
    found = [
        each
        for each in queues
        if (name is None or each.queue == name) and (vhost is None or each.vhost == vhost)
    ]
    if len(found) == 1:
        return found[0]
    names = sorted({each.queue for each in queues})
    if len(found) > 1 and name is None:
        listed = ", ".join(names[:NEAR_MAX]) + (", ..." if len(names) > NEAR_MAX else "")
        reason = f"{len(names)} queues are in it ({listed}): name one with --source-queue"
    elif found:
        hosts = ", ".join(sorted({each.vhost for each in found}))
        reason = f"queue {name!r} is there of several virtual hosts: --source-vhost {hosts}"
    elif not queues:
        reason = "no queue is in it"
    else:
        near = difflib.get_close_matches(name or "", names, NEAR_MAX, cutoff=0.4)
        reason = f"no queue {name!r} in it; there is {', '.join(near or names[:NEAR_MAX])}"
    raise RequestFailedError(f"{request.uri}: {reason}", EXIT_REFUSED)


def _ranges(source: ExportedQueue, progress: ImportProgress, request: ImportRequest) -> list[Range]:
    done = [] if request.is_again else progress.ranges
    partial = {} if request.is_again else progress.partial
    return missing_ranges(source, done, partial, request.since, request.until)


def _import(
    client: ImportClient, exported: Exported, source: ExportedQueue, request: ImportRequest
) -> Imported:
    done = Imported()
    work = client.begin(
        request.queue, vhost=request.vhost, source=source.identity, again=request.is_again
    )
    ranges = missing_ranges(
        source, work.progress.ranges, work.progress.partial, request.since, request.until
    )
    try:
        with work, _shower(offsets_in(ranges)) as show:
            for wanted in ranges:
                for part in _batches(work, exported, source, wanted):
                    done.messages += part.messages
                    done.bytes += part.bytes
                    done.skipped += part.skipped
                    show(done.messages)
    except KeyboardInterrupt:
        raise RequestFailedError(f"interrupted; {_how_far(done)}", 130) from None
    except UnreachableError as error:
        raise RequestFailedError(f"{error}; {_how_far(done)}", EXIT_FAILED) from error
    except ControlError as error:
        raise RequestFailedError(f"{error.reason}; {_how_far(done)}", EXIT_FAILED) from error
    return done


def _batches(
    work: ImportWork, exported: Exported, source: ExportedQueue, wanted: Range
) -> Iterator[Imported]:
    return import_range(
        exported.rows(source, *wanted),
        wanted,
        work,
        _BOUNDS,
        work.progress.partial.get(wanted[0], 0),
        counts_all=work.progress.counts_all,
    )


def _how_far(done: Imported) -> str:
    return f"{done.messages} messages were imported; the same command continues from there"


@contextmanager
def _shower(offsets: int) -> Iterator[Any]:
    """Show progress: a bar on a terminal, otherwise nothing."""
    if not sys.stderr.isatty():
        yield lambda _messages: None
        return
    with click.progressbar(length=offsets, label="importing", file=sys.stderr) as bar:
        yield lambda messages: bar.update(min(messages, offsets) - bar.pos)


def _report(
    request: ImportRequest,
    source: ExportedQueue,
    ranges: Sequence[Range],
    done: Imported,
    seconds: float,
) -> dict[str, Any]:
    return {
        "imported": done.messages,
        "imported_bytes": done.bytes,
        "skipped": done.skipped,
        "ranges": [list(each) for each in ranges],
        "source_vhost": source.vhost,
        "source_queue": source.queue,
        "vhost": request.vhost,
        "queue": request.queue,
        "from": request.uri,
        "is_dry_run": request.is_dry_run,
        "seconds": round(seconds, 3),
    }


def _summary(report: dict[str, Any]) -> str:
    source, target = shown(report["source_queue"]), shown(report["queue"])
    if not report["ranges"]:
        return f"nothing new: what {report['from']} has of queue {source} is in queue {target}"
    verb = "would import" if report["is_dry_run"] else "imported"
    text = (
        f"{verb} {report['imported']} messages, {report['imported_bytes']} bytes, of queue "
        f"{source} into queue {target}: offsets {_listed(report['ranges'])}"
    )
    if report["skipped"]:
        text += f"\nnote: {report['skipped']} messages of a batch that was cut short had come"
    return text


def _listed(ranges: Sequence[Sequence[int]]) -> str:
    first = ", ".join(f"[{start}, {end})" for start, end in ranges[:NEAR_MAX])
    return f"{first}, ..." if len(ranges) > NEAR_MAX else first
