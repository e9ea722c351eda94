"""What a broker needs for a load: memory, disk, open files and processor, as sums to check.

All functions are pure. Each sum is an upper bound for the load that is described, not for others: a
client that reads nothing, or a queue that nobody counted, is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from amqp_server.base.config import ServerConfig
from cli import unit_costs as costs
from cli.display import rough_size
from cli.unit_costs import KIB, MIB

_DEFAULTS: Final = ServerConfig()
WINDOWS_BYTES: Final = 64 * MIB
"""As `amqp_server.broker.storing.window_budget.HELD_BYTES_MAX`."""
FREED_BYTES: Final = 64 * MIB
"""Freed memory that the broker keeps for the next messages, at most (docs/operations.md)."""
AUDIT_BYTES: Final = 2 * _DEFAULTS.audit_files * _DEFAULTS.audit_file_bytes
"""Files of changes, and as many of logins and connections (docs/audit.md)."""
RESERVE_BYTES: Final = 1 * MIB
"""As `amqp_server.upkeep.disk_reserve.RESERVE_BYTES`."""
SPARE_SHARE: Final = 0.1
"""Part of a volume that is left free: file systems keep some for root."""
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """What clients do, and the settings that matter for it.

    Attributes:
        messages_per_second: Messages that publishers send, on average, in all queues.
        message_bytes: Body of a message, in bytes.
        header_bytes: Its properties, headers and routing key, in bytes.
        queues: Durable queues, from 1.
        connections: Connections, each with a channel and a consumer.
        fanout: Queues that each message reaches, 0 or more.
        backlog_seconds: Time for which consumers may stand still at the peak.
        retain_seconds: Time for which settled messages are kept (`--retain-for`).
        peak: Messages a second of the busiest time, in multiples of the average; from 1.
        is_confirm_each: Whether each publisher waits for a confirm before the next message.
        is_synced: Whether confirms wait for the disk (`--durability fsync`).
        has_management: Whether the management server runs.
        ring_bytes: `--ring-bytes`.
        ring_bytes_total: `--ring-bytes-total`, no less than `ring_bytes`.
        segment_bytes: `--segment-bytes`.
    """

    messages_per_second: float
    message_bytes: int = 1024
    header_bytes: int = costs.HEADER_BYTES
    queues: int = 10
    connections: int = 100
    fanout: float = 1.0
    backlog_seconds: float = 3600.0
    retain_seconds: float = 0.0
    peak: float = 3.0
    is_confirm_each: bool = False
    is_synced: bool = True
    has_management: bool = True
    ring_bytes: int = _DEFAULTS.ring_bytes
    ring_bytes_total: int = _DEFAULTS.ring_bytes_total
    segment_bytes: int = _DEFAULTS.segment_bytes

    @property
    def octets(self) -> int:
        """Octets of a message in memory: body and headers, at least 1."""
        return max(1, self.message_bytes + self.header_bytes)

    @property
    def stored_bytes(self) -> int:
        """Octets of a message in a queue's log."""
        return self.octets + costs.STORED_MESSAGE_BYTES

    @property
    def peak_per_second(self) -> float:
        """Messages that publishers send in the busiest second."""
        return self.messages_per_second * self.peak

    @property
    def waiting(self) -> float:
        """Messages in all queues after `backlog_seconds` without a consumer, at the peak."""
        return self.peak_per_second * self.fanout * self.backlog_seconds

    @property
    def retained(self) -> float:
        """Settled messages that are kept, in all queues."""
        return self.messages_per_second * self.fanout * self.retain_seconds

    @property
    def messages_in_rings(self) -> float:
        """Most messages that wait in memory as well as in a log."""
        of_a_queue = min(_DEFAULTS.ring_size, self.ring_bytes / self.octets)
        return min(self.waiting, self.queues * of_a_queue, self.ring_bytes_total / self.octets)


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a sum.

    Attributes:
        name: What it is for: a few words, unique in its sum.
        amount: In the unit of the sum.
        how: How it comes about, with the numbers that were multiplied.
    """

    name: str
    amount: float
    how: str


@dataclass(frozen=True, slots=True)
class Need:
    """How much of one thing a load needs.

    Attributes:
        name: memory, disk, open files or processor.
        unit: bytes, files or cores.
        terms: The parts of the sum.
    """

    name: str
    unit: str
    terms: Sequence[Term]

    @property
    def total(self) -> float:
        """Sum of all parts, in the unit."""
        return sum(term.amount for term in self.terms)


def broker_memory(load: Load) -> Need:
    """Return the memory of the broker's process, in bytes."""
    in_rings = load.messages_in_rings
    windows = min(WINDOWS_BYTES, (load.waiting - in_rings) * load.stored_bytes)
    terms = [
        Term("broker, empty", costs.BROKER_BYTES, "measured"),
        _each("connections", load.connections, costs.CONNECTION_BYTES),
        _each("queues", load.queues, costs.QUEUE_BYTES),
        Term(
            "waiting messages in rings",
            in_rings * (load.octets + costs.RING_MESSAGE_BYTES),
            f"{in_rings:,.0f} x ({load.octets:,} B + {costs.RING_MESSAGE_BYTES} B); "
            f"--ring-bytes-total is {rough_size(load.ring_bytes_total)}",
        ),
        Term(
            "waiting messages on the disk only",
            (load.waiting - in_rings) * costs.WAITING_MESSAGE_BYTES,
            f"{load.waiting - in_rings:,.0f} x {costs.WAITING_MESSAGE_BYTES} B",
        ),
        Term(
            "windows of readers",
            windows,
            f"at most {rough_size(WINDOWS_BYTES)}, if messages wait on the disk",
        ),
        Term("freed memory", FREED_BYTES, "at most; kept for the next messages"),
    ]
    return Need("memory of the broker", "bytes", terms)


def other_memory(load: Load) -> Need:
    """Return the memory of the management server and of the kernel's sockets, in bytes."""
    terms = [_each("sockets", load.connections, costs.SOCKET_BYTES)]
    if load.has_management:
        terms = [
            Term("management server, empty", costs.MANAGEMENT_BYTES, "measured"),
            _each("its lists of queues", load.queues, costs.MANAGED_QUEUE_BYTES),
            _each("its lists of connections", load.connections, costs.MANAGED_CONNECTION_BYTES),
            *terms,
        ]
    return Need("memory beside it", "bytes", terms)


def disk(load: Load) -> Need:
    """Return the octets of the data directory; a back-up on the same disk is links to them."""
    message = (
        f"({load.message_bytes:,} B + {load.header_bytes:,} B headers "
        f"+ {costs.STORED_MESSAGE_BYTES} B log)"
    )
    started = _started_segment_bytes(load)
    terms = [
        Term(
            "waiting messages",
            load.waiting * load.stored_bytes,
            f"{load.peak_per_second:,g}/s at the peak x {load.fanout:g} queues "
            f"x {load.backlog_seconds:,.0f} s x {message}",
        ),
        Term(
            "settled messages that are kept",
            load.retained * load.stored_bytes,
            f"{load.messages_per_second:,g}/s x {load.fanout:g} queues "
            f"x {load.retain_seconds:,.0f} s x {message}",
        ),
        Term(
            "files that are needed in part",
            load.queues * started,
            f"{load.queues:,} queues x {rough_size(round(started))}: at most --segment-bytes, or "
            "what a queue gets in --segment-age; whole files are removed",
        ),
        _each("queues", load.queues, costs.STORED_QUEUE_BYTES),
        Term(
            "the server's own files",
            AUDIT_BYTES + RESERVE_BYTES,
            f"audit log {rough_size(AUDIT_BYTES)}, reserve {rough_size(RESERVE_BYTES)}",
        ),
    ]
    return Need("disk", "bytes", terms)


def open_files(load: Load) -> Need:
    """Return the open files of the broker."""
    terms = [
        Term("the server itself", costs.OTHER_FILES, "listeners, checkpoints, libraries"),
        Term(
            "connections",
            load.connections * costs.CONNECTION_FILES,
            f"{load.connections:,} x {costs.CONNECTION_FILES}",
        ),
        Term(
            "caches of logs",
            costs.CACHED_FILES,
            "at most, for all queues together; a queue has none of its own",
        ),
    ]
    return Need("open files", "files", terms)


def processor(load: Load) -> Need:
    """Return how much of its event loop's core a broker needs at the peak, as at full speed."""
    rate = load.peak_per_second
    first_us = costs.CONFIRM_EACH_US if load.is_confirm_each else costs.WINDOW_US
    more_kib = max(0.0, load.octets / KIB - 1)
    further = max(0.0, load.fanout - 1)
    how_confirmed = "each confirm awaited" if load.is_confirm_each else "confirms not awaited"
    beats = load.connections / _DEFAULTS.heartbeat_seconds
    terms = [
        Term("messages", rate * first_us / _US, f"{rate:,g}/s x {first_us} us, {how_confirmed}"),
        Term(
            "further queues",
            rate * further * costs.DELIVERY_US / _US,
            f"{rate * further:,g} deliveries/s x {costs.DELIVERY_US} us",
        ),
        Term(
            "octets beyond 1 KiB",
            rate * max(1.0, load.fanout) * more_kib * costs.KIB_US / _US,
            f"{rate * max(1.0, load.fanout):,g}/s x {more_kib:,.1f} KiB x {costs.KIB_US} us",
        ),
        Term(
            "heartbeats",
            beats * costs.HEARTBEAT_US / _US,
            f"{beats:,.1f}/s x {costs.HEARTBEAT_US} us",
        ),
    ]
    return Need("processor", "cores", terms)


def shown_cores(load: Load) -> float:
    """Return the cores that `top` shows at the peak: messages that come alone cost more each."""
    lone = load.peak_per_second * costs.LONE_US / _US
    return min(max(lone, processor(load).total), costs.PROCESS_CORES_MAX)


def disk_bytes_per_second(load: Load) -> float:
    """Return the octets that the broker writes to the disk each second at the peak."""
    return load.peak_per_second * load.fanout * load.stored_bytes


def needs(load: Load) -> list[Need]:
    """Return all sums."""
    return [broker_memory(load), other_memory(load), disk(load), open_files(load), processor(load)]


def _each(name: str, count: int, each_bytes: int) -> Term:
    return Term(name, count * each_bytes, f"{count:,} x {each_bytes:,} B")


def _started_segment_bytes(load: Load) -> float:
    """Return the most that one queue's log has in a file of which a part is not needed any more."""
    of_a_queue = load.messages_per_second * load.fanout / load.queues * load.stored_bytes
    return min(load.segment_bytes, of_a_queue * _DEFAULTS.segment_age_seconds)
