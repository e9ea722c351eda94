"""What a connection, a queue and a message cost a broker: measured constants, with their units.

Measured on 2026-11-30 at commit 2e9c8eb0 by `python -m bench capacity`, three runs, LOST 0 in all
of them, unless a comment names another source: AMD EPYC, 2 cores, ext4, Linux 6.18, Python 3.11.7,
compiled kernels. Figures of memory and disk hardly depend on the machine; those of the processor
do. `tests/cli/test_unit_costs.py` compares the former with a real server.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

BROKER_BYTES: Final = 56 * MIB
"""Resident memory of an empty broker; 37.5 MiB of it is its own (RssAnon), the rest is programs."""
MANAGEMENT_BYTES: Final = 48 * MIB
"""Resident memory of the management server of an empty broker."""
CONNECTION_BYTES: Final = 18_500
"""Memory of the broker for a connection with a channel, a consumer, and a message that it holds."""
SOCKET_BYTES: Final = 5_000
"""Memory of the kernel for an idle connection: half of what both ends took (slabs of
/proc/meminfo, 1,000 and 4,000 connections: 3,800 to 5,500)."""
QUEUE_BYTES: Final = 20_000
"""Memory of the broker for a durable queue that has had a message."""
MANAGED_QUEUE_BYTES: Final = 11_200
"""Peak memory of the management server for each queue, when `/api/queues` lists all of them."""
MANAGED_CONNECTION_BYTES: Final = 12_000
"""Peak memory of the management server for each connection, when `/api/connections` lists all."""
RING_MESSAGE_BYTES: Final = 90
"""Memory of a message in the ring, beside its octets."""
WAITING_MESSAGE_BYTES: Final = 2
"""Memory of a message that waits in the log only: 0.2 in a plain queue (ten million messages), 1.6
to 1.8 with x-message-ttl, x-max-priority or x-max-length (a million messages that are alike)."""

HEADER_BYTES: Final = 205
"""Octets of properties, headers and routing key of a message of a service: a trace id, two more
headers, message id, timestamp, content type, and a correlation id in every third."""
STORED_MESSAGE_BYTES: Final = 112
"""Octets of the log for a message that is written alone, beside body and headers; 21 for each of
50 messages that are written together."""
STORED_QUEUE_BYTES: Final = 21_000
"""Disk space of a durable queue: its document, directories, log and index, which take blocks."""

CONNECTION_FILES: Final = 1
"""Open files of a connection. Queues have none of their own: they share caches."""
OTHER_FILES: Final = 64
"""As `amqp_server.upkeep.open_file_limit.OTHERS`."""
CACHED_FILES: Final = 896
"""As `appendlog.files.open_files.CACHES_FILES_MAX`: segments, mappings and indexes of all logs."""

# docs/benchmarks.md, "Results of real traffic", commit 2d047ed0: microseconds of the broker for a
# durable message of about 1 KiB with one delivery and an ack of its own, at full speed.
WINDOW_US: Final = 9.2
"""Publishers do not wait for each confirm; a write for each message (row `single-writes`)."""
CONFIRM_EACH_US: Final = 43.1
"""Each publisher waits for its confirm before the next message (row `confirm-each`)."""
DELIVERY_US: Final = 2.4
"""Each further queue that a message reaches, with its delivery (row `fanout-varied`)."""
KIB_US: Final = 2.3
"""Each KiB beyond the first (rows `bodies-64k`, `services-4x200-few`)."""

LONE_US: Final = 500
"""Microseconds for a message at 1,000 a second on 50 connections: each one wakes the loop and the
writer. 800 at 200 a second, 290 at 4,000."""
HEARTBEAT_US: Final = 50
"""Microseconds for a connection in each interval of its heartbeats."""
PROCESS_CORES_MAX: Final = 1.2
"""Cores that one broker keeps busy: one for the event loop, a part of one for the disk. It never
needs more, because it takes more messages in each turn when there are more."""
LOOP_CORES_MAX: Final = 0.8
"""Share of the loop's core that a plan may use; above it, latencies grow."""
