"""Moves all queues, round by round, until it is told to stop.

A round asks the source how many messages each queue has. Each queue that has some gets a turn, of
which a bounded number work at the same time. So a queue that its publishers fill all the time does
not keep the others waiting, and what arrives later is moved in a later round.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.protocol.errors import AmqpError
from amqp_server.shovel.link.errors import LinkClosed, LinkError
from cli.migrate.queue_move import RefusedError, State, StoppedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.shovel.link.channel import LinkChannel
    from amqp_server.shovel.link.connection import LinkConnection
    from cli.migrate.queue_move import Means, QueueMove

ROUND_SECONDS: Final = 1.0
"""Pause between two rounds."""
LATER_SECONDS: Final = 5.0
"""Seconds that a queue waits after a turn that has moved nothing, or failed."""
GRACE_SECONDS: Final = 20.0
"""Seconds that turns may take to end when they have to."""
_NOT_FOUND: Final = 404


class Moves:
    """The moves of all queues.

    Args:
        moves: One for each queue.
        means: What they share.
        expiries: After how many seconds without use queues here expire, by virtual host and name.

    Attributes:
        moves: As given.
        whole_round_at: When the last round began that has asked for all queues, by the clock of
            the loop; 0 before the first one.
    """

    def __init__(
        self,
        moves: Sequence[QueueMove],
        means: Means,
        expiries: Mapping[tuple[str, str], float],
    ) -> None:
        self.moves = sorted(moves, key=lambda move: (move.vhost, move.name))
        self.whole_round_at = 0.0
        self._means = means
        self._expiries = dict(expiries)
        self._used: dict[tuple[str, str], float] = {}
        self._turns: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether the last round has found nothing to move, and no move is at work."""
        return self.whole_round_at > 0 and all(move.is_done for move in self.moves)

    @property
    def moved(self) -> int:
        """Messages that this run has put here."""
        return sum(move.moved for move in self.moves)

    async def run(self) -> None:
        """Move until `Means.stop` is set; then let the turns finish what they have taken."""
        rounds = asyncio.create_task(self._run_rounds(), name="rounds")
        stop = asyncio.create_task(self._means.stop.wait(), name="stop")
        await asyncio.wait((rounds, stop), return_when=asyncio.FIRST_COMPLETED)
        self._means.stop.set()
        stop.cancel()
        rounds.cancel()
        with suppress(asyncio.CancelledError):
            await rounds
        if self._turns:
            await asyncio.wait(self._turns, timeout=GRACE_SECONDS)
        for turn in self._turns:
            turn.cancel()
        await asyncio.gather(*self._turns, return_exceptions=True)
        for move in self.moves:
            await move.end(self._means)
        if self._failure is not None:
            raise self._failure

    async def _run_rounds(self) -> None:
        while True:
            began, is_whole = asyncio.get_running_loop().time(), True
            for vhost, moves in groupby(self.moves, lambda move: move.vhost):
                waiting = [move for move in moves if not move.is_busy]
                try:
                    async with self._means.pool.connection(vhost) as connection:
                        await self._ask(connection, waiting)
                except LinkError:
                    # The next round connects again, and says so.
                    is_whole = False
            if is_whole:
                self.whole_round_at = began
            await self._use_expiring()
            await asyncio.sleep(ROUND_SECONDS)

    async def _ask(self, connection: LinkConnection, moves: Sequence[QueueMove]) -> None:
        """Ask for the counts of queues, and begin turns."""
        channel = await connection.open_channel()
        for move in moves:
            try:
                count, _ = await channel.queue_counts(move.name)
            except LinkClosed as error:
                if not connection.is_open:
                    raise
                _note_refusal(move, error)
                channel = await connection.open_channel()
            else:
                self._begin(move, count)
        await _close(channel)

    def _begin(self, move: QueueMove, count: int) -> None:
        loop = asyncio.get_running_loop()
        if move.is_stream:
            # Its count does not fall, and RabbitMQ's is not exact.
            is_due = count != move.counted or loop.time() >= move.next_turn
        else:
            move.left = count
            if count == 0:
                move.state, move.note = State.EMPTY, ""
            is_due = count > 0 and loop.time() >= move.next_turn
        if is_due:
            move.is_busy = True
            turn = asyncio.create_task(self._turn(move, count), name=f"move {move.name}")
            self._turns.add(turn)
            turn.add_done_callback(self._note_failure)

    async def _turn(self, move: QueueMove, count: int) -> None:
        before = move.moved
        is_whole = False
        try:
            await move.turn(self._means, count)
            is_whole = True
        except StoppedError:
            move.note = "stopped"
        except RefusedError as error:
            move.state, move.note = State.REFUSED, str(error)
        except AmqpError as error:
            move.state, move.note = State.HELD, f"malformed message: {error.args[0]}"
        except LinkClosed as error:
            _note_refusal(move, error)
        except LinkError as error:
            move.state, move.note = State.AWAY, str(error)
        finally:
            move.is_busy = False
        self._note_end(move, before, count, is_whole=is_whole)

    def _note_failure(self, turn: asyncio.Task[None]) -> None:
        """End everything after a mistake of this program, which `run` raises."""
        self._turns.discard(turn)
        if not turn.cancelled() and turn.exception() is not None:
            self._failure = turn.exception()
            self._means.stop.set()

    def _note_end(self, move: QueueMove, before: int, count: int, *, is_whole: bool) -> None:
        pause = 0.0 if move.moved > before else LATER_SECONDS
        move.next_turn = asyncio.get_running_loop().time() + pause
        if not is_whole:
            move.counted = None
            return
        move.counted = count
        if move.is_stream:
            move.state, move.left = State.COPIED, 0
        elif move.moved > before:
            move.state = State.WAITING
        elif not self._means.stop.is_set():
            move.state, move.note = State.HELD, "another consumer gets the messages"

    async def _use_expiring(self) -> None:
        """Use the queues here that expire, in good time: they have no consumers yet."""
        now = asyncio.get_running_loop().time()
        for move in self.moves:
            key = move.vhost, move.name
            seconds = _expiry(move, self._expiries.get(key))
            if seconds is None or now - self._used.get(key, 0.0) < seconds / 3:
                continue
            self._used[key] = now
            use = partial(self._means.target.use, move.vhost, move.entry)
            with suppress(ControlError, UnreachableError):
                await asyncio.get_running_loop().run_in_executor(self._means.executor, use)


def _expiry(move: QueueMove, by_policy: float | None) -> float | None:
    arguments = move.entry.get("arguments")
    own = arguments.get("x-expires") if isinstance(arguments, dict) else None
    times = [by_policy] if by_policy is not None else []
    if type(own) is int:
        times.append(own / 1000)
    return min(times, default=None)


def _note_refusal(move: QueueMove, error: LinkClosed) -> None:
    """Note why the source does not give a queue's messages."""
    if error.code == _NOT_FOUND:
        move.state, move.note, move.left = State.GONE, "", 0
    elif error.code in (403, 405):
        move.state, move.note = State.HELD, error.text
    else:
        move.state, move.note = State.AWAY, str(error)


async def _close(channel: LinkChannel) -> None:
    with suppress(LinkError):
        await channel.close()
