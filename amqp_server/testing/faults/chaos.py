"""Faults at random that come again with the same seed.

Time plays no part: each fault comes at a certain delivery or confirm of a certain connection,
counted in messages. Connections are told apart by the name that clients give them.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from amqp_server.protocol.close_methods import connection_close
from amqp_server.protocol.errors import ConnectionForced
from amqp_server.protocol.methods import method_frame
from amqp_server.testing.faults.frames import ACK, NACK, confirm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.testing.faults.faulty_connection import FaultyConnection
    from amqp_server.testing.faults.frames import Frame
    from amqp_server.testing.faults.scope import Scope

MESSAGES_MEAN: Final = 50
"""Deliveries or confirms of one connection between two faults, on average."""
_ENDS: Final = ("close", "cut", "lose")
"""Ends of a connection: connection.close with 320, in the middle of the frame, before it."""
_KINDS: Final = {"delivery": _ENDS, "confirm": (*_ENDS, "nack")}


class Chaos:
    """Faults at random, from the beginning to the end of a `with` of `Broker.chaos`.

    Args:
        seed: Seed of the random numbers.
        scope: Connections that are meant.
        messages_mean: Deliveries or confirms of one connection between two faults, on average.

    Attributes:
        seed: Seed with which the same client meets the same faults.
    """

    def __init__(self, seed: int, scope: Scope, messages_mean: int) -> None:
        self.seed = seed
        self._scope = scope
        self._mean = messages_mean
        self._happened: list[str] = []
        self._plans: dict[FaultyConnection, _Plan] = {}
        self._numbers: Counter[str] = Counter()

    @property
    def happened(self) -> tuple[str, ...]:
        """Faults that have happened so far, in words."""
        return tuple(self._happened)

    def begin(self, connections: Iterable[FaultyConnection]) -> None:
        """Count the connections that are open already, the oldest first."""
        for connection in connections:
            self._plan_of(connection)

    # amqp_server.testing.faults.faulty_connection.FrameFilter

    def take(self, connection: FaultyConnection, frame: Frame) -> Sequence[Frame]:
        """Return what is left of a frame."""
        if not self._scope.covers(connection.vhost):
            return (frame,)
        if frame.closes_channel:
            self._plan_of(connection).resolved.pop(frame.channel, None)
        elif frame.is_confirm:
            return list(self._confirms(connection, frame))
        elif frame.is_delivery:
            plan = self._plan_of(connection)
            if (kind := plan.kind_of_next("delivery")) is not None:
                self._end(connection, plan, kind, "delivery", frame)
                return ()
        return (frame,)

    def _confirms(self, connection: FaultyConnection, frame: Frame) -> Iterator[Frame]:
        """Look at each publish that a confirm is about: how many share one depends on the time."""
        plan = self._plan_of(connection)
        last, is_multiple = frame.confirmed
        first = plan.resolved.get(frame.channel, 0) + 1 if is_multiple else last
        plan.resolved[frame.channel] = last
        for tag in range(first, last + 1):
            kind = plan.kind_of_next("confirm")
            if kind is None:
                continue
            if first < tag:
                yield _confirms(frame, first, tag - 1)
            first = tag + 1
            refusal = confirm(NACK, frame.channel, tag, multiple=False)
            if kind == "nack":
                self._note(plan, kind, "confirm")
                yield refusal
            else:
                self._end(connection, plan, kind, "confirm", refusal)
                return
        if first <= last:
            yield _confirms(frame, first, last)

    def _end(
        self, connection: FaultyConnection, plan: _Plan, kind: str, what: str, frame: Frame
    ) -> None:
        """End a connection at a frame, which is not sent.

        No fault resets it: how much a client reads before a reset depends on the time.
        """
        self._note(plan, kind, what)
        octets = frame.octets
        match kind:
            case "close":
                closing = connection_close(ConnectionForced(f"chaos with seed {self.seed}"))
                connection.cut(method_frame(0, closing))
            case "cut":
                connection.cut(octets[: len(octets) // 2])
            case _:
                connection.cut(b"")

    def _note(self, plan: _Plan, kind: str, what: str) -> None:
        self._happened.append(f"{kind} at {what} {plan.counts[what]} of connection {plan.name}")

    def _plan_of(self, connection: FaultyConnection) -> _Plan:
        plan = self._plans.get(connection)
        if plan is None:
            name = connection.client_name
            self._numbers[name] += 1
            plan = _Plan(self.seed, f"'{name}' {self._numbers[name]}", self._mean)
            plan.resolved.update(connection.resolved_tags())
            self._plans[connection] = plan
        return plan


class _Plan:
    """When something goes wrong in one connection.

    Args:
        seed: Seed of all connections.
        name: Name of the connection, different from all others.
        mean: Messages between two faults, on average.

    Attributes:
        name: Name of the connection.
        counts: How many deliveries and confirms it has got.
        resolved: Last publish of each channel that is confirmed.
    """

    def __init__(self, seed: int, name: str, mean: int) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.resolved: dict[int, int] = {}
        self._mean = mean
        # One for each kind: how they mix depends on the time.
        self._random = {what: Random(f"{seed} {name} {what}") for what in _KINDS}  # noqa: S311
        self._next = {what: self._draw(what) for what in _KINDS}

    def kind_of_next(self, what: str) -> str | None:
        """Count a delivery or confirm; return what goes wrong with it, or None."""
        self.counts[what] += 1
        if self.counts[what] < self._next[what]:
            return None
        self._next[what] += self._draw(what)
        return self._random[what].choice(_KINDS[what])

    def _draw(self, what: str) -> int:
        return self._random[what].randint(1, 2 * self._mean - 1)


def _confirms(frame: Frame, first: int, last: int) -> Frame:
    """Return the confirm of some of the publishes that a frame is about."""
    identity = NACK if frame.identity == NACK else ACK
    return confirm(identity, frame.channel, last, multiple=first < last)
