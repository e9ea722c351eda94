"""The rooms that hold data or protocol, and the tests that look at them from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SPARK_ONLY: Final = ("_columns_py", "_json_py", "_memory_py", "_tables_py", "columns", "folded_crc")
"""Modules of the layout that only Spark's tests run: a Java for each bug takes too long."""


@dataclass(frozen=True)
class Room:
    """A part of the code that bugs are drawn from.

    Attributes:
        name: In reports.
        sources: Glob patterns below the repository.
        outside: Tests of which nothing records the lines that they run, mostly because their
            server is another process; they come last.
    """

    name: str
    sources: tuple[str, ...]
    outside: tuple[str, ...] = ()

    def paths(self, repository: Path) -> list[str]:
        """Return its modules, sorted."""
        found = {path for pattern in self.sources for path in repository.glob(pattern)}
        return sorted(
            str(path.relative_to(repository)) for path in found if path.stem not in SPARK_ONLY
        )


def namesakes(repository: Path, path: str) -> list[str]:
    """Return the tests that have the name of a module, of which no lines are recorded.

    Their server is mostly another process: they come before those that a room names.

    Args:
        repository: The repository.
        path: Path of the module, below it.
    """
    name = f"test_{Path(path).stem}.py"
    found = {str(each.relative_to(repository)) for each in (repository / "tests").rglob(name)}
    return sorted(found.difference(recorded_files(repository)))


_SERVER: Final = "amqp_server"
_BROKER: Final = "amqp_server/broker"
_MANAGEMENT: Final = "amqp_server/management"

ROOMS: Final = (
    Room("ring", ("ring/*.py",)),
    Room("appendlog", ("appendlog/*.py",), ("tests/cli/test_inspect.py",)),
    Room(
        "appendlog/layout",
        ("appendlog/layout/*.py",),
        ("tests/docs/test_example_log.py", "tests/docs/test_numbers.py"),
    ),
    Room("appendlog/files", ("appendlog/files/*.py",)),
    Room("appendlog/segments", ("appendlog/segments/*.py",), ("tests/cli/test_inspect.py",)),
    Room("appendlog/flushing", ("appendlog/flushing/*.py",), ("tests/system/test_stopping.py",)),
    Room("appendlog/recovery", ("appendlog/recovery/*.py",), ("tests/crash/test_restart.py",)),
    Room("appendlog/reclaim", ("appendlog/reclaim/*.py",), ("tests/system/test_leases.py",)),
    Room(
        "appendlog/checking, repairing",
        ("appendlog/checking/*.py", "appendlog/repairing/*.py"),
        ("tests/cli/test_verify.py", "tests/cli/test_repair.py"),
    ),
    Room(
        "appendlog/embedded",
        ("appendlog/embedded/*.py",),
        ("tests/embedded/test_interrupted_writer.py", "tests/docs/test_embedding.py"),
    ),
    Room("offsets", ("offsets/*.py",), ("tests/crash/test_restart.py",)),
    Room(
        "offsets/consuming",
        ("offsets/consuming/*.py",),
        ("tests/embedded/test_interrupted_consumer.py", "tests/docs/test_embedding.py"),
    ),
    Room("metadata", ("metadata/*.py",), ("tests/cli/test_process.py",)),
    Room(
        "protocol",
        ("amqp_server/protocol/**/*.py",),
        (
            "tests/conformance/test_frames.py",
            "tests/conformance/test_channel.py",
            "tests/conformance/test_wrong_octets.py",
            "tests/conformance/test_content.py",
            "tests/conformance/test_handshake.py",
            "tests/conformance/test_headers_exchange.py",
            "tests/conformance/test_stream_filters.py",
        ),
    ),
    Room(
        "commits and checkpoints",
        (
            f"{_SERVER}/operator_signals.py",
            f"{_SERVER}/upkeep/checkpointer.py",
            f"{_SERVER}/upkeep/committer.py",
            f"{_SERVER}/recovery/first_round.py",
            f"{_SERVER}/upkeep/group_rounds.py",
            f"{_SERVER}/recovery/redo.py",
            f"{_BROKER}/publishing/confirms.py",
            f"{_BROKER}/transactions/*.py",
        ),
        (
            "tests/crash/test_transactions.py",
            "tests/crash/test_restart.py",
            "tests/conformance/test_transactions.py",
            "tests/conformance/test_confirms.py",
        ),
    ),
    Room(
        "settling",
        (
            f"{_BROKER}/queue.py",
            f"{_BROKER}/consuming/unacked.py",
            f"{_BROKER}/orders/*.py",
            f"{_BROKER}/rules/delivery_counts.py",
        ),
        (
            "tests/conformance/test_requeueing.py",
            "tests/conformance/test_delivery_tags.py",
            "tests/conformance/test_priorities.py",
            "tests/conformance/test_queue_limits.py",
            "tests/crash/test_restart.py",
        ),
    ),
    Room(
        "storing",
        (f"{_BROKER}/storing/*.py",),
        ("tests/system/test_spill_delay.py", "tests/crash/test_restart.py"),
    ),
    Room(
        "dead letters and transfers",
        (f"{_BROKER}/transfers/*.py",),
        (
            "tests/conformance/test_dead_letters.py",
            "tests/conformance/test_dead_letter_headers.py",
            "tests/conformance/test_dead_letter_routing.py",
            "tests/conformance/test_delayed_exchange.py",
            "tests/system/test_replay.py",
            "tests/crash/test_rules_after_restart.py",
            "tests/crash/test_delayed_messages.py",
        ),
    ),
    Room(
        "users and permissions",
        (
            f"{_SERVER}/access/*.py",
            f"{_SERVER}/recovery/access_recovery.py",
            f"{_SERVER}/connections/authentication.py",
            f"{_BROKER}/rights.py",
            f"{_BROKER}/publishing/guarded_targets.py",
        ),
        (
            "tests/conformance/test_permissions.py",
            "tests/system/test_users.py",
            "tests/cli/test_users.py",
            "tests/audit/test_audited_server.py",
        ),
    ),
    Room(
        "authentication back ends",
        (f"{_SERVER}/access/backends/**/*.py",),
        ("tests/access/backends/test_back_ends_of_a_process.py",),
    ),
    Room(
        "policies and limits",
        (
            f"{_BROKER}/policies/*.py",
            f"{_BROKER}/vhost_limits.py",
            f"{_SERVER}/connections/connection_limits.py",
            f"{_SERVER}/operations/limit_settings.py",
        ),
        (
            "tests/conformance/test_policies.py",
            "tests/conformance/test_limits.py",
            "tests/system/test_policies.py",
            "tests/system/test_vhost_and_user_limits.py",
        ),
    ),
    Room("tls", (f"{_SERVER}/connections/tls/*.py", f"{_SERVER}/connections/proxy_protocol/*.py")),
    Room(
        "migrate",
        ("cli/migrate/*.py",),
        ("tests/cli/migrate/test_ending.py", "tests/cli/migrate/test_kills.py"),
    ),
    Room(
        "definitions", (f"{_SERVER}/definitions_file/**/*.py",), ("tests/cli/test_definitions.py",)
    ),
    Room(
        "firehose",
        (f"{_BROKER}/firehose/*.py",),
        (
            "tests/broker/test_firehose.py",
            "tests/conformance/test_firehose.py",
            "tests/system/test_firehose.py",
        ),
    ),
    Room(
        "rabbitmq tools",
        ("cli/rabbitmq_tools/*.py", f"{_SERVER}/control/settings.py"),
        (
            "tests/cli/rabbitmq_tools/test_conversation.py",
            "tests/cli/rabbitmq_tools/test_verbs_of_the_server.py",
            "tests/cli/rabbitmq_tools/test_installed.py",
            "tests/cli/rabbitmq_tools/test_mistakes_with_tools.py",
            "tests/audit/test_audited_server.py",
        ),
    ),
    Room(
        "rabbitmq.conf, addresses",
        ("cli/rabbitmq_conf/*.py", f"{_SERVER}/base/listen_addresses.py"),
        (
            "tests/cli/test_rabbitmq_conf.py",
            "tests/cli/test_rabbitmq_conf_lines.py",
            "tests/cli/test_listen_addresses.py",
        ),
    ),
    Room(
        "events",
        (f"{_BROKER}/events/*.py",),
        ("tests/conformance/test_event_exchange.py",),
    ),
    Room(
        "counters and change feed",
        (
            f"{_BROKER}/counters/*.py",
            f"{_BROKER}/changed_queues.py",
            f"{_SERVER}/admin/change_feed/*.py",
        ),
        ("tests/management/metrics/test_real_broker.py",),
    ),
    Room(
        "management: mirror",
        (f"{_MANAGEMENT}/broker_client.py", f"{_MANAGEMENT}/mirror/*.py"),
        ("tests/management/http/test_lists.py",),
    ),
    Room(
        "management: HTTP",
        (
            f"{_MANAGEMENT}/certificates.py",
            f"{_MANAGEMENT}/http/*.py",
            f"{_MANAGEMENT}/resources/*.py",
        ),
        (
            "tests/management/writes/test_conversation.py",
            "tests/management/writes/test_bodies.py",
            "tests/management/http/test_rules.py",
            "tests/management/http/test_permission_table.py",
            "tests/management/http/test_https.py",
            "tests/management/http/test_lists.py",
            "tests/management/http/test_sessions.py",
            "tests/management/http/test_objects.py",
            "tests/management/tools/test_walk.py",
        ),
    ),
    Room(
        "management: metrics",
        (f"{_MANAGEMENT}/metrics/**/*.py",),
        ("tests/management/metrics/test_real_broker.py",),
    ),
    Room("shovel: link", (f"{_SERVER}/shovel/link/*.py",), ("tests/shovel/test_kills.py",)),
    Room(
        "shovel",
        (
            f"{_SERVER}/shovel/*.py",
            f"{_SERVER}/children/shovel_process.py",
            f"{_SERVER}/connections/shovel_listener.py",
        ),
        ("tests/shovel/test_shovels.py", "tests/shovel/test_kills.py"),
    ),
    Room("turns and jobs", (f"{_BROKER}/turn.py", f"{_BROKER}/turn_watch.py", f"{_BROKER}/job.py")),
    Room(
        "handlers",
        (
            f"{_SERVER}/connections/handlers/*.py",
            f"{_SERVER}/operations/applied.py",
            f"{_SERVER}/operations/binding.py",
            f"{_SERVER}/operations/deferring.py",
            f"{_SERVER}/operations/exchange_*.py",
            f"{_SERVER}/operations/getting.py",
            f"{_SERVER}/operations/queue_*.py",
            f"{_SERVER}/operations/sharding/*.py",
            f"{_BROKER}/declaring/*.py",
        ),
        (
            "tests/conformance/test_channel.py",
            "tests/conformance/test_permissions.py",
            "tests/audit/test_audited_server.py",
        ),
    ),
    Room(
        "consuming",
        (f"{_BROKER}/consuming/*.py", f"{_BROKER}/subscriptions/*.py"),
        ("tests/conformance/test_delivery_tags.py", "tests/conformance/test_requeueing.py"),
    ),
    Room(
        "routing and publishing",
        (f"{_BROKER}/routing/**/*.py", f"{_BROKER}/publishing/*.py"),
        (
            "tests/conformance/test_headers_exchange.py",
            "tests/conformance/test_confirms.py",
            "tests/cli/test_shards.py",
        ),
    ),
    Room("rules", (f"{_BROKER}/rules/*.py",), ("tests/conformance/test_queue_limits.py",)),
    Room("broker", (f"{_BROKER}/*.py",), ("tests/conformance/test_permissions.py",)),
    Room("audit", (f"{_SERVER}/audit/*.py",)),
    Room(
        "control",
        (f"{_SERVER}/control/*.py", f"{_SERVER}/admin/views/*.py", f"{_SERVER}/admin/*.py"),
        ("tests/audit/test_audited_server.py", "tests/cli/test_process.py"),
    ),
    Room(
        "imports and maintenance",
        (f"{_SERVER}/admin/imports/*.py", f"{_SERVER}/maintenance/*.py"),
        ("tests/system/test_imports.py",),
    ),
    Room(
        "management: processes",
        (f"{_MANAGEMENT}/*.py", f"{_MANAGEMENT}/following/*.py"),
        ("tests/management/http/test_process.py",),
    ),
    Room(
        "testing",
        (f"{_SERVER}/testing/*.py", f"{_SERVER}/testing/faults/*.py"),
        ("tests/testing/test_plugin.py", "tests/testing/test_broker_process.py"),
    ),
    Room(
        "connections",
        (f"{_SERVER}/connections/*.py", f"{_SERVER}/connections/session/*.py"),
        ("tests/conformance/test_handshake.py", "tests/conformance/test_channel.py"),
    ),
    Room(
        "upkeep",
        (f"{_SERVER}/upkeep/*.py",),
        ("tests/crash/test_restart.py", "tests/system/test_alarms.py"),
    ),
    Room(
        "recovery",
        (f"{_SERVER}/recovery/*.py",),
        (
            "tests/crash/test_restart.py",
            "tests/cli/test_any_damage.py",
            "tests/management/writes/test_shovel_owners.py",
        ),
    ),
    Room(
        "server",
        (
            f"{_SERVER}/*.py",
            f"{_SERVER}/base/*.py",
            f"{_SERVER}/children/*.py",
            f"{_SERVER}/operations/__init__.py",
            f"{_SERVER}/operations/cluster_id.py",
            f"{_SERVER}/operations/parameter_settings.py",
        ),
        ("tests/crash/test_restart.py", "tests/cli/test_process.py"),
    ),
    Room(
        "cli",
        ("cli/*.py",),
        (
            "tests/cli/test_process.py",
            "tests/cli/test_users.py",
            "tests/cli/test_definitions.py",
            "tests/spark/test_export_command.py",
        ),
    ),
)
"""A module that two rooms name belongs to the first."""

PACKAGES: Final = (
    *("amqp_server", "appendlog", "cli", "metadata", "offsets", "pyspark_amqplog", "ring"),
)
"""The packages of the product."""
IN_NO_ROOM: Final = {
    "appendlog/spark": "only tests that start Spark run it: a Java for each bug takes too long",
    "pyspark_amqplog": "registers the source of Spark, which only Spark's tests run",
    "cli/demo": "shows other rooms at work, with Spark",
    "cli/doctor": "looks at a machine, and neither at data nor at protocol",
    "cli/submitted": "is run by Spark, in a process of its own",
}
"""Folders of modules that no room has, with the reason."""

IN_PROCESS: Final = (
    "access",
    "access/backends",
    "appendlog",
    "audit",
    "broker",
    "change_feed",
    "cli/doctor",
    "cli/migrate",
    "clock",
    "connections",
    "definitions",
    "embedded",
    "faults",
    "groups",
    "management/metrics",
    "management/mirror",
    "metadata",
    "offsets",
    "protocol",
    "proxy_protocol",
    "ring",
    "shovel/link",
    "testing",
    "tls",
)
"""Folders whose tests run the code in their own process."""
MIXED: Final = ("cli", "control", "crash", "shovel", "system")
"""Folders in which that is true of the files that use `SERVER_INSIDE`."""
SERVER_INSIDE: Final = "tests.threaded_server"
NOT_RECORDED: Final = {
    "bench": "starts benchmarks, not the code",
    "cli/rabbitmq_tools": "starts the command line in processes; rooms name what they need of it",
    "conformance": "its server is another process",
    "disk": "its servers are other processes, on disks of their own",
    "demo": "starts the demo in a process",
    "deploy": "reads files, and starts the command in processes",
    "docs": "reads pages, and starts servers in processes",
    "frozen": "its server is another process",
    "interop": "its server is another process",
    "lint": "reads sources",
    "management": "its server is another process, like that of the folders below it",
    "management/events": "its server is another process",
    "management/http": "its server is another process",
    "management/page": "its server is another process",
    "management/tools": "its server is another process",
    "management/writes": "its server is another process",
    "moving": "its servers are other processes, on machines of their own",
    "mutants": "tests this",
    "oracle": "tests RabbitMQ",
    "parity": "is run for each bug in a kernel",
    "second_look": "tests what a run of the tests makes of failures",
    "spark": "a Java for each bug takes too long",
    "statemachine": "runs nearly everything for minutes",
    "stored": "its server is another process, which reads files of older versions",
}
"""Folders of tests of which no lines are recorded, with the reason."""
INTERRUPTING: Final = "tests.embedded.interruptions"
"""What raises exceptions anywhere would raise them where lines are recorded too."""
LONG: Final = frozenset({"test_bit_rot.py", "test_every_operation.py", "test_streams.py"})
"""Of `tests/faults`: each test runs nearly everything for minutes, so it would come last."""


def recorded_files(repository: Path) -> list[str]:
    """Return the files of tests of which it is recorded which lines they run."""
    tests = repository / "tests"
    files = [*tests.glob("test_*.py")]
    for folder in IN_PROCESS:
        files += (tests / folder).glob("test_*.py")
    files = [path for path in files if path.parent.name != "faults" or path.name not in LONG]
    for folder in MIXED:
        files += (
            path for path in (tests / folder).glob("test_*.py") if SERVER_INSIDE in path.read_text()
        )
    return sorted(
        str(path.relative_to(repository)) for path in files if INTERRUPTING not in path.read_text()
    )
