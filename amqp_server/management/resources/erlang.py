"""Values of RabbitMQ's Erlang machine, which clients expect to be there."""

from __future__ import annotations

from typing import Any, Final

GARBAGE_COLLECTION: Final[dict[str, int]] = {
    "fullsweep_after": 65535,
    "max_heap_size": 0,
    "min_bin_vheap_size": 46422,
    "min_heap_size": 233,
    "minor_gcs": 0,
}
ERLANG_VERSION: Final = "26"
ERLANG_FULL_VERSION: Final = "Erlang/OTP 26 (not used: amqp-server runs on Python)"
NO_METRICS_WAIT: Final[dict[str, int]] = dict.fromkeys(
    (
        "connection_closed",
        "channel_closed",
        "consumer_deleted",
        "exchange_deleted",
        "queue_deleted",
        "vhost_deleted",
        "node_node_deleted",
        "channel_consumer_deleted",
    ),
    0,
)
NODE_COUNTERS: Final = (
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_journal_write_count",
    "queue_index_write_count",
    "queue_index_read_count",
)

NO_MEMORY_PARTS: Final[dict[str, int]] = dict.fromkeys(
    (
        "allocated_unused",
        "atom",
        "binary",
        "code",
        "connection_channels",
        "connection_other",
        "connection_readers",
        "connection_writers",
        "metadata_store",
        "metadata_store_ets",
        "metrics",
        "mgmt_db",
        "mnesia",
        "msg_index",
        "other_ets",
        "other_proc",
        "plugins",
        "queue_procs",
        "queue_slave_procs",
        "quorum_ets",
        "quorum_queue_dlx_procs",
        "quorum_queue_procs",
        "reserved_unallocated",
        "stream_queue_coordinator_procs",
        "stream_queue_procs",
        "stream_queue_replica_reader_procs",
    ),
    0,
)
"""Typed clients fail where one is missing."""


def add_process(shown: dict[str, Any]) -> None:
    """Add what RabbitMQ shows of the Erlang process of an object."""
    shown["garbage_collection"] = GARBAGE_COLLECTION
    shown["reductions"] = 0
    shown["reductions_details"] = {"rate": 0.0}
