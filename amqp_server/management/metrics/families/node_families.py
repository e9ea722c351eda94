"""Metrics of the broker as a whole: totals, churn, memory, disk, files."""

from __future__ import annotations

from typing import Final

from amqp_server.management.metrics.family import Family, FamilyGroup, Kind, Sum
from amqp_server.management.metrics.object_sets import LOGINS, NO_OBJECTS, NODE, OVERVIEW

CHURN: Final = FamilyGroup(
    "connection_churn_metrics",
    OVERVIEW,
    (
        Family(
            "connections_opened_total",
            Kind.COUNTER,
            "Total number of connections opened",
            "churn_rates.connection_created",
        ),
        Family(
            "connections_closed_total",
            Kind.COUNTER,
            "Total number of connections closed or terminated",
            "churn_rates.connection_closed",
        ),
        Family(
            "channels_opened_total",
            Kind.COUNTER,
            "Total number of channels opened",
            "churn_rates.channel_created",
        ),
        Family(
            "channels_closed_total",
            Kind.COUNTER,
            "Total number of channels closed",
            "churn_rates.channel_closed",
        ),
        Family(
            "queues_declared_total",
            Kind.COUNTER,
            "Total number of queues declared",
            "churn_rates.queue_declared",
        ),
        Family(
            "queues_created_total",
            Kind.COUNTER,
            "Total number of queues created",
            "churn_rates.queue_created",
        ),
        Family(
            "queues_deleted_total",
            Kind.COUNTER,
            "Total number of queues deleted",
            "churn_rates.queue_deleted",
        ),
    ),
)

NODE_COARSE: Final = FamilyGroup(
    "node_coarse_metrics",
    NODE,
    (
        Family("process_open_fds", Kind.GAUGE, "Open file descriptors", "fd_used"),
        Family("process_open_tcp_sockets", Kind.GAUGE, "Open TCP sockets", "sockets_used"),
        Family("process_resident_memory_bytes", Kind.GAUGE, "Memory used in bytes", "mem_used"),
        Family(
            "disk_space_available_bytes", Kind.GAUGE, "Disk space available in bytes", "disk_free"
        ),
        Family("erlang_processes_used", Kind.GAUGE, "Erlang processes used", "proc_used"),
        Family(
            "erlang_gc_runs_total",
            Kind.COUNTER,
            "Total number of Erlang garbage collector runs",
            "gc_num",
        ),
        Family(
            "erlang_gc_reclaimed_bytes_total",
            Kind.COUNTER,
            "Total number of bytes of memory reclaimed by Erlang garbage collector",
            "gc_bytes_reclaimed",
        ),
        Family(
            "erlang_scheduler_context_switches_total",
            Kind.COUNTER,
            "Total number of Erlang scheduler context switches",
            "context_switches",
        ),
    ),
)

NODE_LIMITS: Final = FamilyGroup(
    "node_metrics",
    NODE,
    (
        Family("process_max_fds", Kind.GAUGE, "Open file descriptors limit", "fd_total"),
        Family("process_max_tcp_sockets", Kind.GAUGE, "Open TCP sockets limit", "sockets_total"),
        Family(
            "resident_memory_limit_bytes", Kind.GAUGE, "Memory high watermark in bytes", "mem_limit"
        ),
        Family(
            "disk_space_available_limit_bytes",
            Kind.GAUGE,
            "Free disk space low watermark in bytes",
            "disk_free_limit",
        ),
        Family(
            "erlang_processes_limit",
            Kind.GAUGE,
            "Erlang processes limit",
            "proc_total",
            default=1048576,
        ),
        Family("erlang_scheduler_run_queue", Kind.GAUGE, "Erlang scheduler run queue", "run_queue"),
        Family(
            "erlang_net_ticktime_seconds",
            Kind.GAUGE,
            "Inter-node heartbeat interval",
            "net_ticktime",
            default=60,
        ),
        Family("erlang_uptime_seconds", Kind.GAUGE, "Node uptime", "uptime", scale=0.001),
    ),
)

PERSISTER: Final = FamilyGroup(
    "node_persister_metrics",
    NODE,
    (
        Family(
            "io_read_ops_total",
            Kind.COUNTER,
            "Total number of I/O read operations",
            "io_read_count",
        ),
        Family(
            "io_read_bytes_total", Kind.COUNTER, "Total number of I/O bytes read", "io_read_bytes"
        ),
        Family(
            "io_write_ops_total",
            Kind.COUNTER,
            "Total number of I/O write operations",
            "io_write_count",
        ),
        Family(
            "io_write_bytes_total",
            Kind.COUNTER,
            "Total number of I/O bytes written",
            "io_write_bytes",
        ),
        Family(
            "io_sync_ops_total",
            Kind.COUNTER,
            "Total number of I/O sync operations",
            "io_sync_count",
        ),
        Family(
            "io_seek_ops_total",
            Kind.COUNTER,
            "Total number of I/O seek operations",
            "io_seek_count",
        ),
        Family(
            "io_reopen_ops_total",
            Kind.COUNTER,
            "Total number of times files have been reopened",
            "io_reopen_count",
        ),
        Family(
            "schema_db_ram_tx_total",
            Kind.COUNTER,
            "Total number of Schema DB memory transactions",
            "mnesia_ram_tx_count",
        ),
        Family(
            "schema_db_disk_tx_total",
            Kind.COUNTER,
            "Total number of Schema DB disk transactions",
            "mnesia_disk_tx_count",
        ),
        Family(
            "msg_store_read_total",
            Kind.COUNTER,
            "Total number of Message Store read operations",
            "msg_store_read_count",
        ),
        Family(
            "msg_store_write_total",
            Kind.COUNTER,
            "Total number of Message Store write operations",
            "msg_store_write_count",
        ),
        Family(
            "queue_index_read_ops_total",
            Kind.COUNTER,
            "Total number of Queue Index read operations",
            "queue_index_read_count",
        ),
        Family(
            "queue_index_write_ops_total",
            Kind.COUNTER,
            "Total number of Queue Index write operations",
            "queue_index_write_count",
        ),
        Family("io_read_time_seconds_total", Kind.COUNTER, "Total I/O read time", "io_read_time"),
        Family(
            "io_write_time_seconds_total", Kind.COUNTER, "Total I/O write time", "io_write_time"
        ),
        Family("io_sync_time_seconds_total", Kind.COUNTER, "Total I/O sync time", "io_sync_time"),
        Family("io_seek_time_seconds_total", Kind.COUNTER, "Total I/O seek time", "io_seek_time"),
    ),
)

RAFT: Final = FamilyGroup(
    "ra_metrics",
    NODE,
    (
        Family("raft_term_total", Kind.COUNTER, "Current Raft term number", ""),
        Family("raft_log_snapshot_index", Kind.GAUGE, "Raft log snapshot index", ""),
        Family("raft_log_last_applied_index", Kind.GAUGE, "Raft log last applied index", ""),
        Family("raft_log_commit_index", Kind.GAUGE, "Raft log commit index", ""),
        Family("raft_log_last_written_index", Kind.GAUGE, "Raft log last written index", ""),
        Family(
            "raft_entry_commit_latency_seconds",
            Kind.GAUGE,
            "Time taken for a log entry to be committed",
            "",
        ),
    ),
)

AUTH_ATTEMPTS: Final = FamilyGroup(
    "auth_attempt_metrics",
    LOGINS,
    (
        Family(
            "auth_attempts_total",
            Kind.COUNTER,
            "Total number of authorization attempts",
            "auth_attempts",
        ),
        Family(
            "auth_attempts_succeeded_total",
            Kind.COUNTER,
            "Total number of successful authentication attempts",
            "auth_attempts_succeeded",
        ),
        Family(
            "auth_attempts_failed_total",
            Kind.COUNTER,
            "Total number of failed authentication attempts",
            "auth_attempts_failed",
        ),
    ),
)

AUTH_ATTEMPTS_BY_SOURCE: Final = FamilyGroup(
    "auth_attempt_detailed_metrics",
    NO_OBJECTS,
    (
        Family(
            "auth_attempts_detailed_total",
            Kind.COUNTER,
            "Total number of authorization attempts with source info",
            "",
            sum=Sum.ABSENT,
        ),
        Family(
            "auth_attempts_detailed_succeeded_total",
            Kind.COUNTER,
            "Total number of successful authorization attempts with source info",
            "",
            sum=Sum.ABSENT,
        ),
        Family(
            "auth_attempts_detailed_failed_total",
            Kind.COUNTER,
            "Total number of failed authorization attempts with source info",
            "",
            sum=Sum.ABSENT,
        ),
    ),
)

TOTALS: Final = FamilyGroup(
    "totals",
    OVERVIEW,
    (
        Family(
            "connections", Kind.GAUGE, "Connections currently open", "object_totals.connections"
        ),
        Family("channels", Kind.GAUGE, "Channels currently open", "object_totals.channels"),
        Family("consumers", Kind.GAUGE, "Consumers currently connected", "object_totals.consumers"),
        Family("queues", Kind.GAUGE, "Queues available", "object_totals.queues"),
    ),
)

ALARMS: Final = FamilyGroup(
    "alarms",
    NODE,
    (
        Family(
            "alarms_memory_used_watermark",
            Kind.UNTYPED,
            "is 1 if VM memory watermark alarm is in effect",
            "mem_alarm",
        ),
        Family(
            "alarms_free_disk_space_watermark",
            Kind.UNTYPED,
            "is 1 if free disk space watermark alarm is in effect",
            "disk_free_alarm",
        ),
        Family(
            "alarms_file_descriptor_limit",
            Kind.UNTYPED,
            "is 1 if file descriptor limit alarm is in effect",
            "fd_alarm",
        ),
    ),
)
