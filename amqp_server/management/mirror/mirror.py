"""A copy of what the broker shows of itself, kept up to date by reports of changes.

Each request asks for what has changed since the one before, so a broker with many idle objects
sends little. The copy answers all readers; the broker is asked once for all who wait.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.broker_client import BrokerAway, BrokerRefused
from amqp_server.management.mirror.clock import SystemClock
from amqp_server.management.mirror.exports import Exports
from amqp_server.management.mirror.fields import DEPTH_NAMES, FIELDS, text_of
from amqp_server.management.mirror.overview import Overview
from amqp_server.management.mirror.pairs import PAIR_KINDS, Pairs
from amqp_server.management.mirror.queue_past import show_oldest, show_utilisation
from amqp_server.management.mirror.row import STEP_SECONDS, Row, Ticks
from amqp_server.management.mirror.series import CLIENTS, OBJECTS
from amqp_server.management.mirror.table import Kind, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.management.broker_client import BrokerClient
    from amqp_server.management.mirror.clock import Clock

logger = logging.getLogger("amqp_server.management.mirror.mirror")

LOOP_SHARE: Final = 0.01
"""Share of the broker's event loop that refreshes may use."""
PAUSE_SECONDS_MAX: Final = 1.0
"""Longest pause between two refreshes for that share."""


def _by_name(attributes: Mapping[str, Any]) -> str:
    return text_of(attributes, "name")


def _by_vhost_and_name(attributes: Mapping[str, Any]) -> tuple[str, str]:
    return text_of(attributes, "vhost"), text_of(attributes, "name")


def _by_channel(attributes: Mapping[str, Any]) -> str:
    return f"{attributes['connection']} ({attributes['number']})"


def _by_channel_and_tag(attributes: Mapping[str, Any]) -> tuple[str, str]:
    return f"{attributes['connection']} ({attributes['channel']})", text_of(
        attributes, "consumer_tag"
    )


_KINDS: Final = {
    "vhosts": Kind(_by_name, FIELDS["vhosts"], OBJECTS),
    "exchanges": Kind(_by_vhost_and_name, FIELDS["exchanges"], OBJECTS),
    "queues": Kind(_by_vhost_and_name, FIELDS["queues"], OBJECTS, shows_idle=True),
    "connections": Kind(_by_name, FIELDS["connections"], CLIENTS),
    "channels": Kind(_by_channel, FIELDS["channels"], CLIENTS, shows_idle=True),
    "consumers": Kind(_by_channel_and_tag, FIELDS["consumers"], ()),
}


class Mirror:
    """The broker's objects, as they were at the last refresh. One event loop owns it.

    Args:
        broker: Asks the broker. One of its own, so that other requests never delay a refresh.
        clock: Time of samples and pauses; None: that of the machine.

    Attributes:
        vhosts: Virtual hosts by name.
        queues: Queues by virtual host and name.
        exchanges: Exchanges by virtual host and name; the default exchange has an empty name.
        connections: Connections by name.
        channels: Channels by name: that of the connection, and the number in parentheses.
        consumers: Consumers by channel name and consumer tag.
        pairs: By kind of pairs, what channels, exchanges and queues did with each other.
        node: The state of the whole server.
        overview: Sums over all objects, and counters of the whole server.
        exports: What exports have done.
        refreshed_seconds: Unix time of the last refresh; 0 before the first.
    """

    def __init__(self, broker: BrokerClient, clock: Clock | None = None) -> None:
        self.refreshed_seconds = 0.0
        self._broker = broker
        self._clock: Clock = SystemClock() if clock is None else clock
        self.exports = Exports(broker, self._clock)
        self._ticks = Ticks()
        self._tables = {name: Table(kind, self._ticks) for name, kind in _KINDS.items()}
        self.vhosts: dict[str, Row] = self._tables["vhosts"].rows
        self.queues: dict[tuple[str, str], Row] = self._tables["queues"].rows
        self.exchanges: dict[tuple[str, str], Row] = self._tables["exchanges"].rows
        self.connections: dict[str, Row] = self._tables["connections"].rows
        self.channels: dict[str, Row] = self._tables["channels"].rows
        self.consumers: dict[tuple[str, str], Row] = self._tables["consumers"].rows
        self.pairs = {kind: Pairs(kind, self._ticks) for kind in PAIR_KINDS}
        self._overview = Overview(self._ticks)
        self.node: Row = Row(self._ticks, OBJECTS, is_new=False, counted=NODE_COUNTED)
        self.overview: Row = self._overview.row
        self._run = 0
        self._generation = 0
        self._is_first = True
        # Messages in the queues of each virtual host, by name: ready and unacknowledged.
        self._depths: dict[str, list[int]] = {}
        self._not_before_seconds = 0.0
        # Changes by this process, and how many there were when the last refresh began.
        self._change_count = 0
        self._seen_change_count = 0
        self._under_way: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Return when the mirror shows the broker at a moment after this call.

        So it shows what its caller has changed before. Where a poll costs the broker much, the
        next one is up to a second away: a caller that polls does not wait for it.

        Args:
            max_age_seconds: Return at once if the last refresh is not older.

        Raises:
            BrokerAway: The broker does not answer.
            BrokerRefused: The broker failed.
        """
        if self._clock.seconds() - self.refreshed_seconds < max_age_seconds:
            return
        if self._next is None:
            # The one that is under way may have passed what its caller wants to see.
            self._next = asyncio.get_running_loop().create_task(self._refresh_next())
            self._next.add_done_callback(_consume)
        # A caller that is cancelled must not cancel it for the others.
        await asyncio.shield(self._next)

    def expect_change(self) -> None:
        """Let the next refresh come at once: a client may look for what it has just changed."""
        self._change_count += 1
        self._not_before_seconds = 0.0

    async def _refresh_next(self) -> None:
        before = self._under_way
        if before is not None:
            await asyncio.wait((before,))
        await self._clock.until(self._not_before_seconds)
        self._under_way, self._next = self._next, None
        self._seen_change_count = self._change_count
        await self._refresh()

    async def run(self) -> None:
        """Refresh and take samples each five seconds, until cancelled."""
        while True:
            now = self._clock.seconds()
            at_seconds = (int(now) // STEP_SECONDS + 1) * STEP_SECONDS
            await self._clock.until(at_seconds)
            try:
                await self._clock.until(self._not_before_seconds)
                await self.refresh()
                # Where the machine slept, the values are those of now, not of then.
                late_seconds = int(self._clock.seconds()) // STEP_SECONDS * STEP_SECONDS
                self.take_samples(max(at_seconds, late_seconds))
            except (BrokerAway, BrokerRefused) as error:
                logger.warning("broker not seen reason=%s", error)
            except Exception:
                # Without this the samples would end for good.
                logger.exception("samples not taken")

    def take_samples(self, at_seconds: int) -> None:
        """Take samples of all that has changed since the last ones.

        Args:
            at_seconds: Unix time of the samples, a multiple of five.
        """
        self._ticks.tick(at_seconds)
        for table in self._tables.values():
            table.take_samples()
        for pairs in self.pairs.values():
            pairs.take_samples()
        self.node.sample()
        self.overview.sample()

    async def _refresh(self) -> None:
        kinds = [*self._tables, *self.pairs]
        arguments = {"since": self._generation, "kinds": kinds}
        try:
            result = await self._broker.call(
                "management.changes", arguments, on_progress=self._take
            )
        except BaseException:
            # Some reports may have been taken: the next refresh begins anew.
            self._generation = 0
            raise
        self._end(result)

    def _take(self, report: dict[str, Any]) -> None:
        """Take a report of the broker."""
        if "run" in report:
            self._begin(report["run"], is_whole=report["is_whole"])
            return
        if (pairs := self.pairs.get(report["kind"])) is not None:
            pairs.take(report["columns"], report["rows"], is_first=self._is_first)
            pairs.remove(report["gone"])
            return
        table = self._tables[report["kind"]]
        is_queues = report["kind"] == "queues"
        now_seconds = self._clock.seconds()
        for row, values, before in table.take(
            report["columns"], report["rows"], is_first=self._is_first
        ):
            if is_queues:
                show_oldest(row, values, now_seconds)
                show_utilisation(row, before, now_seconds)
                self._count_depth(row.key[0], row.fields, 1)
                self._count_depth(row.key[0], before, -1)
            elif report["kind"] == "vhosts":
                row.fields |= {name: before.get(name, 0) for name in DEPTH_NAMES}
        for row in table.remove(report["gone"]):
            if is_queues:
                self._count_depth(row.key[0], row.fields, -1)
            elif report["kind"] == "exchanges":
                # The broker tells of it only when the queue changes next.
                self.pairs["incoming"].remove_of("exchange", row.key)

    def _begin(self, run: int, *, is_whole: bool) -> None:
        if run != self._run:
            self._run = run
            self._depths.clear()
            for table in self._tables.values():
                table.clear()
            for pairs in self.pairs.values():
                pairs.clear()
            self._is_first = True
        if is_whole:
            for table in self._tables.values():
                table.begin_whole()
            for pairs in self.pairs.values():
                pairs.begin_whole()

    def _end(self, result: dict[str, Any]) -> None:
        for kind, table in self._tables.items():
            for row in table.end_whole():
                if kind == "queues":
                    self._count_depth(row.key[0], row.fields, -1)
        for pairs in self.pairs.values():
            pairs.end_whole()
        self._generation = result["generation"]
        self._is_first = False
        self._sum_vhosts()
        self.node.begin_change()
        self.node.fields = result["node"]
        self._overview.take(result, self._tables, self._depths)
        self.refreshed_seconds = self._clock.seconds()
        pause_seconds = min(result["work_seconds"] / LOOP_SHARE, PAUSE_SECONDS_MAX)
        if self._seen_change_count == self._change_count:
            self._not_before_seconds = self.refreshed_seconds + pause_seconds

    def _count_depth(self, vhost: str, fields: Mapping[str, Any], sign: int) -> None:
        """Add the messages of a queue to those of its virtual host, or subtract them."""
        if fields:
            depth = self._depths.setdefault(vhost, [0] * len(DEPTH_NAMES))
            for at, name in enumerate(DEPTH_NAMES):
                depth[at] += sign * fields[name]

    def _sum_vhosts(self) -> None:
        """Show in each virtual host how many messages its queues have."""
        table = self._tables["vhosts"]
        for name in self._depths.keys() - self.vhosts.keys():
            # The queues of a deleted virtual host go one by one.
            if not any(self._depths[name]):
                del self._depths[name]
        for name, row in self.vhosts.items():
            depth = self._depths.get(name, [0] * len(DEPTH_NAMES))
            sums = dict(zip(DEPTH_NAMES, depth, strict=True))
            if any(row.fields.get(each) != sums[each] for each in DEPTH_NAMES):
                row.begin_change()
                row.fields |= sums
                table.changed[row] = None


NODE_COUNTED: Final = (
    "mem_used",
    "disk_free",
    "fd_used",
    "sockets_used",
    "proc_used",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "io_seek_count",
    "gc_num",
)
"""Fields of the node of which samples are kept."""


def _consume(task: asyncio.Task[None]) -> None:
    """Mark the error of a refresh as seen: those who wait for it get it."""
    if not task.cancelled():
        task.exception()
