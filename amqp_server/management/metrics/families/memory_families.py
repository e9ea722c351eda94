"""Memory of the broker by what it is for, under RabbitMQ's names."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind, Sum
from amqp_server.management.metrics.object_sets import MEMORY

MEMORY_BREAKDOWN: Final = FamilyGroup(
    "node_memory",
    MEMORY,
    (
        Family(
            "memory_atom_table_bytes", Kind.GAUGE, "Atom table size in bytes", "atom", sum=Sum.ADDED
        ),
        Family(
            "memory_binary_heap_bytes",
            Kind.GAUGE,
            "Binary heap size in bytes",
            "binary",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_classic_metadata_store_bytes",
            Kind.GAUGE,
            "Classic metadata store footprint in bytes",
            "mnesia",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_classic_queue_erlang_process_bytes",
            Kind.GAUGE,
            "Classic queue processes footprint in bytes",
            "queue_procs",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_client_connection_channel_bytes",
            Kind.GAUGE,
            "Client connection channel processes footprint in bytes",
            "connection_channels",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_client_connection_other_bytes",
            Kind.GAUGE,
            "Client connection other processes footprint in bytes",
            "connection_other",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_client_connection_reader_bytes",
            Kind.GAUGE,
            "Client connection reader processes footprint in bytes",
            "connection_readers",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_client_connection_writer_bytes",
            Kind.GAUGE,
            "Client connection writer processes footprint in bytes",
            "connection_writers",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_code_module_bytes",
            Kind.GAUGE,
            "Code module memory footprint",
            "code",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_management_stats_db_bytes",
            Kind.GAUGE,
            "Management stats database footprint in bytes",
            "mgmt_db",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_message_index_bytes",
            Kind.GAUGE,
            "Message index footprint in bytes",
            "msg_index",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_metrics_bytes",
            Kind.GAUGE,
            "Metric table footprint in bytes",
            "metrics",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_modern_metadata_store_bytes",
            Kind.GAUGE,
            "Modern metadata store footprint in bytes",
            "metadata_store",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_modern_metadata_store_ets_table_bytes",
            Kind.GAUGE,
            "Modern metadata store ETS tables footprint in bytes",
            "metadata_store_ets",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_other_erlang_process_bytes",
            Kind.GAUGE,
            "Other processes footprint in bytes",
            "other_proc",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_other_ets_table_bytes",
            Kind.GAUGE,
            "Other ETS tables footprint in bytes",
            "other_ets",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_other_system_bytes",
            Kind.GAUGE,
            "Other runtime footprint in bytes",
            "other_system",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_plugin_bytes",
            Kind.GAUGE,
            "Total plugin footprint in bytes",
            "plugins",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_quorum_queue_dlx_erlang_process_bytes",
            Kind.GAUGE,
            "Quorum queue DLX worker processes footprint in bytes",
            "quorum_queue_dlx_procs",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_quorum_queue_erlang_process_bytes",
            Kind.GAUGE,
            "Quorum queue processes footprint in bytes",
            "quorum_queue_procs",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_quorum_queue_ets_table_bytes",
            Kind.GAUGE,
            "Quorum queue ETS tables footprint in bytes",
            "quorum_ets",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_runtime_allocated_unused_bytes",
            Kind.GAUGE,
            "Runtime allocated but unused blocks size in bytes",
            "allocated_unused",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_runtime_reserved_unallocated_bytes",
            Kind.GAUGE,
            "Runtime reserved but unallocated blocks size in bytes",
            "reserved_unallocated",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_stream_coordinator_erlang_process_bytes",
            Kind.GAUGE,
            "Stream coordinator processes footprint in bytes",
            "stream_queue_coordinator_procs",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_stream_erlang_process_bytes",
            Kind.GAUGE,
            "Stream processes footprint in bytes",
            "stream_queue_procs",
            sum=Sum.ADDED,
        ),
        Family(
            "memory_stream_replica_reader_erlang_process_bytes",
            Kind.GAUGE,
            "Stream replica reader processes footprint in bytes",
            "stream_queue_replica_reader_procs",
            sum=Sum.ADDED,
        ),
    ),
)
