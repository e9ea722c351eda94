"""The replays, returns and moves of messages that run, and those that ended last.

The command of a transfer waits for its end, or starts it in the background; then its client may go.
Either way it is listed with its progress, and can be stopped between two of its parts. Nothing of
it is on the disk: a restart ends it, and its messages are where they are. All need the same
rights.

Commands: `transfers.list`, `transfers.stop`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.access.permissions import Right
from amqp_server.admin.views.values import text_json
from amqp_server.audit.actor import acting
from amqp_server.control.command_channel import refused
from amqp_server.control.protocol import ClientGoneError, ControlError, ErrorKind
from amqp_server.control.registry import Audited, Command
from amqp_server.control.requesting_user import entered_by_request, rights_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from amqp_server.access.access_control import AccessControl
    from amqp_server.control.registry import ReportProgress

    Work = Callable[[ReportProgress], Awaitable[dict[str, object]]]
    """Does a transfer; reports after each part, and returns its last progress."""

logger = logging.getLogger("amqp_server.control.transfers")

RUNNING_MAX: Final = 4
"""Transfers in the background that run at a time; others wait."""
WAITING_MAX: Final = 10_000
"""Transfers in the background that run or wait; one more is refused."""
ENDED_MAX: Final = 100
"""Ended transfers that are remembered."""
STOP_SECONDS: Final = 2.0
"""Time that a stopped transfer has to end by itself, before it is cancelled."""


class State(StrEnum):
    """State of a transfer."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class TransferKind(StrEnum):
    """Kind of a transfer."""

    REPLAY = "replay"
    RETURN = "return"
    MOVE = "move"


@dataclass(slots=True, eq=False)
class Transfer:
    """One transfer.

    Attributes:
        kind: Its kind.
        vhost: Virtual host of its queues.
        queue: Queue that has the messages.
        to: Queue that gets them; empty if there are several.
        is_listed: Whether it is remembered when it has ended: not if messages are only counted.
        number: Number of the transfer since the start of the server.
        user: User who has begun it, as the audit log shows it.
        state: Its state.
        progress: Its last report; empty before the first one.
        reason: Why it has failed.
        started_ms: Milliseconds since 1970 UTC.
        ended_ms: Likewise; 0 before its end.
        is_stopping: Whether it ends before its next part.
        task: Its task, if it runs in the background.
        begun: Set with its first report, or with its end; in the background only.
    """

    kind: TransferKind
    vhost: str
    queue: str
    to: str = ""
    is_listed: bool = True
    number: int = 0
    user: str = ""
    state: State = State.WAITING
    progress: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    is_stopping: bool = False
    task: asyncio.Task[dict[str, object]] | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def as_json(self) -> dict[str, object]:
        """Return what a client sees of it."""
        return {
            "id": self.number,
            "kind": str(self.kind),
            **text_json("vhost", self.vhost),
            **text_json("queue", self.queue),
            **text_json("to", self.to),
            "user": self.user,
            "state": str(self.state),
            "is_stopping": self.is_stopping,
            "reason": self.reason,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "progress": dict(self.progress),
        }


class Transfers:
    """All transfers of one server. The event loop owns it."""

    def __init__(self) -> None:
        self._number = 0
        self._present: dict[int, Transfer] = {}
        self._ended: deque[Transfer] = deque(maxlen=ENDED_MAX)
        self._places = asyncio.Semaphore(RUNNING_MAX)
        self._is_ended = False

    def all(self) -> list[Transfer]:
        """Return those that run or wait, then those that have ended; each the newest first."""
        return [*reversed(self._present.values()), *self._ended]

    def find(self, number: int) -> Transfer | None:
        """Return a transfer that has not ended."""
        return self._present.get(number)

    async def run(
        self, transfer: Transfer, work: Work, report: ReportProgress, *, in_background: bool
    ) -> dict[str, object]:
        """Run a transfer.

        Args:
            transfer: The transfer; gets its number here.
            work: Does it.
            report: Sends the client a progress report.
            in_background: Whether to return after the first report.

        Returns:
            The result of `work`, with `transfer`: its number; in the background its first report.

        Raises:
            ControlError: It was refused or stopped, or has failed; or too many wait.
            ClientGoneError: The client is gone.
        """
        if in_background and len(self._present) >= WAITING_MAX:
            reason = f"{WAITING_MAX} transfers run or wait, the limit: try again later"
            raise ControlError(ErrorKind.LIMIT_REACHED, reason)
        self._number += 1
        transfer.number = self._number
        transfer.user = acting.get().user
        transfer.started_ms = _now_ms()
        self._present[transfer.number] = transfer
        if not in_background:
            return await self._followed(transfer, work, report)
        running = self._in_its_turn(transfer, work)
        task = transfer.task = asyncio.create_task(running, name=f"transfer {transfer.number}")
        task.add_done_callback(_take_error)
        if len(self._present) <= RUNNING_MAX:
            await transfer.begun.wait()
        if task.done() and not task.cancelled():
            return task.result()
        return {**transfer.progress, "transfer": transfer.number}

    async def stop_one(self, transfer: Transfer) -> None:
        """Let a transfer end before its next part; return when it has, or will."""
        transfer.is_stopping = True
        task = transfer.task
        if task is None:
            return
        seconds = STOP_SECONDS if transfer.state is State.RUNNING else 0.0
        await asyncio.wait((task,), timeout=seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))

    async def end(self) -> None:
        """End all transfers in the background, because the server stops."""
        tasks = [each.task for each in self._present.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_its_turn(self, transfer: Transfer, work: Work) -> dict[str, object]:
        async def report(_progress: Mapping[str, object]) -> None:
            transfer.begun.set()

        try:
            async with self._places:
                return await self._followed(transfer, work, report)
        except asyncio.CancelledError:
            # It may have been cancelled before it began.
            self._note_end(transfer, State.STOPPED)
            raise
        finally:
            transfer.begun.set()

    async def _followed(
        self, transfer: Transfer, work: Work, report: ReportProgress
    ) -> dict[str, object]:
        """Do a transfer, and note what becomes of it."""

        async def note(progress: Mapping[str, object]) -> None:
            transfer.progress = progress
            await report(progress)
            if transfer.is_stopping:
                raise _StoppedError

        transfer.state = State.RUNNING
        outcome = State.STOPPED
        try:
            transfer.progress = await work(note)
            outcome = State.DONE
        except _StoppedError:
            raise ControlError(ErrorKind.FAILED, "it was stopped; what it did is done") from None
        except ControlError as error:
            outcome, transfer.reason = State.FAILED, error.reason
            # Its client was told what is wrong, and nothing has begun.
            transfer.is_listed &= error.kind is not ErrorKind.INVALID_ARGUMENT
            raise
        except (ClientGoneError, asyncio.CancelledError):
            raise
        except Exception as error:
            outcome, transfer.reason = State.FAILED, "internal error, see the server's log"
            if transfer.task is not None:
                logger.exception("transfer failed number=%d", transfer.number)
                raise ControlError(ErrorKind.FAILED, transfer.reason) from error
            raise
        finally:
            self._note_end(transfer, outcome)
        return {**transfer.progress, "transfer": transfer.number}

    def _note_end(self, transfer: Transfer, state: State) -> None:
        if self._present.pop(transfer.number, None) is None:
            return
        transfer.state, transfer.ended_ms, transfer.task = state, _now_ms(), None
        if transfer.is_listed:
            self._ended.appendleft(transfer)


class _StoppedError(Exception):
    """A user has stopped the transfer."""


def _take_error(task: asyncio.Task[Any]) -> None:
    """Note that an error was seen: the list of transfers has its reason."""
    if not task.cancelled():
        task.exception()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def list_transfers(
    transfers: Transfers, access: AccessControl, *, vhost: str = "", queue: str = ""
) -> dict[str, object]:
    """Return the transfers in virtual hosts that the request may enter.

    Args:
        transfers: All transfers.
        access: Users and permissions.
        vhost: Only those of this virtual host; empty for all.
        queue: Only those from or to this queue; empty for all.
    """
    entered = await entered_by_request(access, {each.vhost for each in transfers.all()})
    chosen = [
        each
        for each in transfers.all()
        if (not vhost or each.vhost == vhost)
        and (not queue or queue in {each.queue, each.to})
        and each.vhost in entered
    ]
    rows = [each.as_json() for each in chosen[:ROWS_MAX]]
    return {"transfers": rows, "total": len(chosen)}


async def stop_transfer(transfers: Transfers, access: AccessControl, id: int) -> dict[str, object]:  # noqa: A002 - the name of the argument on the socket
    """Stop a transfer that runs or waits; what it did is done.

    Args:
        transfers: All transfers.
        access: Users and permissions; stopping needs what beginning it needed.
        id: Number of the transfer.

    Raises:
        ControlError: No such transfer runs or waits, or the user may not stop it.
    """
    transfer = transfers.find(id)
    if transfer is None:
        reason = f"no transfer {id} runs or waits"
        raise ControlError(ErrorKind.NOT_FOUND, reason)
    require_transfer(access, transfer.vhost, transfer.queue)
    await transfers.stop_one(transfer)
    return transfer.as_json()


ROWS_MAX: Final = 1000
"""Transfers that one reply names."""


def transfer_commands(transfers: Transfers, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands that list and stop the transfers of a server."""
    return (
        Command(
            "transfers.list",
            partial(list_transfers, transfers, access),
            {},
            {"vhost": str, "queue": str},
        ),
        Command(
            "transfers.stop",
            partial(stop_transfer, transfers, access),
            {"id": int},
            audited=Audited("transfer.stopped", details=("id",)),
        ),
    )


def require_transfer(access: AccessControl, vhost: str, queue: str) -> None:
    """Check that the request may read a queue, and publish to any queue by its name.

    Raises:
        ControlError: Its user may not.
    """
    with refused():
        rights = rights_in(access, vhost)
        rights.require(Right.READ, "queue", queue)
        rights.require(Right.WRITE, "exchange", "")
