"""Execution of `amqp-server migrate`: looks, plans, takes over definitions, moves, compares."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.errors import CannotConnectError, LinkClosed
from cli.control import RequestFailedError
from cli.definitions_import import import_entries
from cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_REFUSED
from cli.migrate.choice import Choice
from cli.migrate.comparison import compare
from cli.migrate.definitions import Definitions, leave_out_refused, read_source
from cli.migrate.differences import Difference, differences
from cli.migrate.errors import SourceError
from cli.migrate.moves import Moves
from cli.migrate.plan import Key, Plan, make_plan
from cli.migrate.pool import SourcePool
from cli.migrate.progress import Progress, progress_for, write_event
from cli.migrate.queue_move import Means
from cli.migrate.report import Report, left_at_source, show_differences
from cli.migrate.source_api import SourceApi, SourceQueue
from cli.migrate.target import Target

PUBLISHERS_SECONDS: Final = 5.0
"""Seconds between two requests for the source's publishers; RabbitMQ counts every 5 seconds."""
_CHECK_SECONDS: Final = 0.25
_THREADS_BESIDE: Final = 2
_STATISTICS_LOOKS: Final = 8
"""Seconds by which RabbitMQ's counts may be behind at the end: it renews them every 5."""


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """Arguments of the command.

    Attributes:
        storage_path: Data directory of this server.
        source: Where the source is.
        api: Its HTTP API; None if only a definitions file is used.
        definitions: Definitions file instead of the API's.
        choice: Virtual hosts and queues.
        parallel: Most queues that are moved at the same time.
        window: Most messages of a queue that are taken and not acked.
        ends_when_empty: Whether to end when nothing is left.
        idle_seconds: How long nothing must have come then.
        ignores_publishers: Whether to end then although publishers are connected.
        imports_definitions: Whether definitions are taken over.
        is_dry_run: Whether only to show the plan.
        as_json: Whether to write JSON lines.
    """

    storage_path: Path
    source: AmqpUri = field(repr=False)
    api: SourceApi | None = field(repr=False)
    definitions: Path | None
    choice: Choice
    parallel: int
    window: int
    ends_when_empty: bool
    idle_seconds: float
    ignores_publishers: bool
    imports_definitions: bool
    is_dry_run: bool
    as_json: bool


def run(request: MigrationRequest) -> int:
    """Migrate; return the exit code.

    Raises:
        RequestFailedError: Nothing was moved, or this server has failed.
    """
    with _refusals():
        target = Target(request.storage_path)
        target.check()
        identity = asyncio.run(_look(request, target))
        definitions = _chosen(request)
        leave_out_refused(request.storage_path, definitions)
        queues = _queues(request)
        plan = make_plan(definitions, queues)
        expected = differences(definitions, queues)
        _show_plan(request, plan, expected)
        if request.is_dry_run:
            return EXIT_DONE
        if request.imports_definitions:
            import_entries(
                request.storage_path,
                definitions.entries,
                rabbit_version=definitions.rabbit_version,
                is_dry_run=False,
            )
        expiries = target.expiries()
    started = time.monotonic()
    with ThreadPoolExecutor(request.parallel + _THREADS_BESIDE) as executor:
        work = _Migration(request, target, plan, identity, executor)
        asyncio.run(work.run(expiries))
    report = _report(request, plan, expected, time.monotonic() - started)
    report.show(as_json=request.as_json)
    return EXIT_INTERRUPTED if work.is_cut_short else report.exit_code


class _Migration:
    """The part that runs on an event loop."""

    def __init__(
        self,
        request: MigrationRequest,
        target: Target,
        plan: Plan,
        identity: str,
        executor: ThreadPoolExecutor,
    ) -> None:
        self.is_cut_short = False
        self._request = request
        self._target = target
        self._plan = plan
        self._identity = identity
        self._executor = executor
        self._progress: Progress = progress_for(as_json=request.as_json)
        self._publishers: list[str] | None = None

    async def run(self, expiries: dict[tuple[str, str], float]) -> None:
        """Move until the user, or an empty source, ends it."""
        request = self._request
        stop = asyncio.Event()
        name = _connection_name(secrets.token_hex(8))
        pool = SourcePool(request.source, name, self._progress.say)
        means = Means(
            pool=pool,
            target=self._target,
            executor=self._executor,
            slots=asyncio.Semaphore(request.parallel),
            window=request.window,
            identity=self._identity,
            stop=stop,
            say=self._progress.say,
        )
        moves = Moves(self._plan.moves, means, expiries)
        mover = asyncio.create_task(moves.run(), name="moves")
        others = [
            asyncio.create_task(self._show(moves), name="progress"),
            asyncio.create_task(self._watch_publishers(), name="publishers"),
        ]
        if request.ends_when_empty:
            others.append(asyncio.create_task(self._until_empty(moves, stop), name="until empty"))
        try:
            with self._ends_by_signal(stop, mover):
                await mover
        except asyncio.CancelledError:
            self.is_cut_short = True
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            self._progress.show(moves.moves, self._publishers)
            self._progress.end()
            await pool.close()

    @contextmanager
    def _ends_by_signal(self, stop: asyncio.Event, mover: asyncio.Task[None]) -> Iterator[None]:
        """Let the first Ctrl-C or SIGTERM end the moves cleanly, and the second at once."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            if stop.is_set():
                mover.cancel()
            else:
                self._progress.say("ending: what was taken is put here; once more ends at once")
                stop.set()

        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _show(self, moves: Moves) -> None:
        while True:
            self._progress.show(moves.moves, self._publishers)
            await asyncio.sleep(self._progress.interval_seconds)

    async def _watch_publishers(self) -> None:
        api = self._request.api
        if api is None:
            return
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._publishers = await loop.run_in_executor(self._executor, api.publishers)
            except SourceError:
                # The source is away, which the moves say; no client publishes there now.
                self._publishers = None
            await asyncio.sleep(PUBLISHERS_SECONDS)

    async def _until_empty(self, moves: Moves, stop: asyncio.Event) -> None:
        """End the moves when nothing has come for a while, and no client is there to publish."""
        loop = asyncio.get_running_loop()
        since, moved, is_told = loop.time(), moves.moved, False
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            if not moves.is_quiet or moves.moved != moved:
                since, moved, is_told = loop.time(), moves.moved, False
                continue
            # A source that is away is not empty: it must have said so after that time.
            if moves.whole_round_at < since + self._request.idle_seconds:
                continue
            if self._waits_for_publishers():
                if not is_told:
                    self._progress.say("all queues are empty; waiting for the publishers to go")
                    is_told = True
                continue
            stop.set()
            return

    def _waits_for_publishers(self) -> bool:
        if self._request.api is None or self._request.ignores_publishers:
            return False
        return self._publishers is None or bool(self._publishers)


async def _look(request: MigrationRequest, target: Target) -> str:
    """Log in at the source; return what names it, the same each time.

    Raises:
        SourceError: It does not answer, refuses, or is this server itself.
    """
    mark = secrets.token_hex(16)
    vhosts = request.choice.vhosts
    vhost = request.source.vhost or (min(vhosts) if vhosts else "/")
    where = request.source.without_password
    try:
        uri = replace(request.source, vhost=vhost)
        async with await connect(uri, {"connection_name": _connection_name(mark)}) as connection:
            if await asyncio.to_thread(target.has_connection, mark):
                raise SourceError(
                    f"{where} is this server itself: its messages would go round in a circle"
                )
            name = connection.server_properties.get("cluster_name", b"")
    except CannotConnectError as error:
        raise SourceError(f"{where}: {error}") from error
    except LinkClosed as error:
        raise SourceError(f"{where}: the source refuses: {error}") from error
    shown_name = name.decode("utf-8", "replace") if isinstance(name, bytes) else ""
    return f"{shown_name} {request.source.host}:{request.source.port}"


def _connection_name(mark: str) -> str:
    return f"amqp-server migrate {mark}"


def _chosen(request: MigrationRequest) -> Definitions:
    return read_source(request.api, request.definitions, request.choice)


def _queues(request: MigrationRequest) -> list[SourceQueue]:
    if request.api is None:
        return []
    return [
        each for each in request.api.queues() if request.choice.has_queue(each.vhost, each.name)
    ]


def _show_plan(request: MigrationRequest, plan: Plan, expected: list[Difference]) -> None:
    if request.as_json:
        differing = [each.as_json for each in expected]
        write_event("plan", {**plan.as_json, "differs": differing, "dry_run": request.is_dry_run})
        return
    if request.is_dry_run:
        plan.show()
        click.echo("dry run: nothing has changed")
    show_differences(expected)


def _report(
    request: MigrationRequest, plan: Plan, expected: list[Difference], seconds: float
) -> Report:
    """Look once more, and compare."""
    differs: list[Difference] | None
    publishers: list[str] | None = None
    is_checked = False
    reason = ""
    try:
        definitions = _chosen(request)
        queues = _settled_queues(request, plan)
        plan = replace(
            plan, source_queues=queues, stays=make_plan(definitions, queues.values()).stays
        )
        is_checked = True
        if request.api is not None:
            publishers = request.api.publishers()
        differs = compare(request.storage_path, definitions)
    except (SourceError, UnreachableError, ControlError, OSError) as error:
        differs, reason = None, str(error)
    left = left_at_source(plan, is_checked=is_checked)
    return Report(plan.moves, left, expected, differs, publishers, seconds, reason)


def _settled_queues(request: MigrationRequest, plan: Plan) -> dict[Key, SourceQueue]:
    """Return the queues of the source when it no longer counts messages that we have acked.

    Raises:
        SourceError: Its API does not answer.
    """
    moved = {(move.vhost, move.name) for move in plan.moves if move.moved}
    for _ in range(_STATISTICS_LOOKS):
        queues = {(each.vhost, each.name): each for each in _queues(request)}
        if not any(queues[key].unacked for key in moved & queues.keys()):
            break
        time.sleep(1)
    return queues


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what can go wrong before the moves into one line and an exit code.

    Raises:
        RequestFailedError: Something went wrong.
    """
    try:
        yield
    except SourceError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except UnreachableError as error:
        raise RequestFailedError(str(error), EXIT_REFUSED) from error
    except ControlError as error:
        raise RequestFailedError(error.reason, EXIT_FAILED, error.kind) from error
    except OSError as error:
        reason = f"{error.filename or 'this machine'}: {error.strerror or error}"
        raise RequestFailedError(reason, EXIT_FAILED) from error
