"""What the exports of the broker's logs have done, as they have noted it in the data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amqp_server.management.broker_client import BrokerClient
    from amqp_server.management.mirror.clock import Clock

KEPT_SECONDS: Final = 30.0
"""How long an answer of the broker is kept: it reads files for it, and exports run for minutes."""
_FINE: Final = ("exported", "nothing_new")


class Exports:
    """The queues of all outputs.

    Args:
        broker: Asks the broker.
        clock: Time that answers are kept by.

    Attributes:
        rows: For each queue of each output `vhost`, `queue`, `output`, `ended_seconds` (Unix time),
            `failed` (0 or 1), and `behind` if the queue is still there: messages that the output
            does not have yet.
    """

    def __init__(self, broker: BrokerClient, clock: Clock) -> None:
        self.rows: Sequence[Mapping[str, Any]] = ()
        self._broker = broker
        self._clock = clock
        self._asked_seconds = float("-inf")

    async def refresh(self) -> None:
        """Ask the broker, if the last answer is old.

        Raises:
            BrokerAway: The broker does not answer.
            BrokerRefused: The broker failed.
        """
        now_seconds = self._clock.seconds()
        if now_seconds - self._asked_seconds < KEPT_SECONDS:
            return
        # Who comes meanwhile gets what there is.
        self._asked_seconds = now_seconds
        try:
            found = await self._broker.call("exports.list")
        except BaseException:
            self._asked_seconds = float("-inf")
            raise
        self.rows = tuple(_rows(found["exports"]))


def _rows(exports: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in exports:
        for queue in each["queues"]:
            row = {
                "vhost": queue["vhost"],
                "queue": queue["queue"],
                "output": each["out"],
                "ended_seconds": queue["ended_ns"] / 1e9,
                "failed": int(queue["status"] not in _FINE),
            }
            if queue["behind"] is not None:
                row["behind"] = queue["behind"]
            yield row
