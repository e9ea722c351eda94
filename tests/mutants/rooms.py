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
            f"{_SERVER}/checkpoint_signal.py",
            f"{_SERVER}/checkpointer.py",
            f"{_SERVER}/committer.py",
            f"{_SERVER}/first_round.py",
            f"{_SERVER}/group_rounds.py",
            f"{_SERVER}/redo.py",
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
            f"{_SERVER}/access_recovery.py",
            f"{_SERVER}/authentication.py",
            f"{_BROKER}/rights.py",
            f"{_BROKER}/publishing/guarded_targets.py",
        ),
        (
            "tests/conformance/test_permissions.py",
            "tests/system/test_users.py",
            "tests/cli/test_users.py",
        ),
    ),
    Room(
        "policies and limits",
        (
            f"{_BROKER}/policies/*.py",
            f"{_BROKER}/vhost_limits.py",
            f"{_SERVER}/connection_limits.py",
            f"{_SERVER}/limit_settings.py",
        ),
        (
            "tests/conformance/test_policies.py",
            "tests/conformance/test_limits.py",
            "tests/system/test_policies.py",
        ),
    ),
    Room("tls", (f"{_SERVER}/tls/*.py", f"{_SERVER}/proxy_protocol/*.py")),
    Room(
        "definitions", (f"{_SERVER}/definitions_file/**/*.py",), ("tests/cli/test_definitions.py",)
    ),
    Room(
        "events",
        (f"{_BROKER}/events/*.py",),
        ("tests/conformance/test_event_exchange.py",),
    ),
    Room(
        "counters and census",
        (f"{_BROKER}/counters/*.py", f"{_BROKER}/changed_queues.py", f"{_SERVER}/census/*.py"),
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
)

IN_PROCESS: Final = (
    "access",
    "appendlog",
    "audit",
    "broker",
    "census",
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
    "tls",
)
"""Folders whose tests run the code in their own process."""
MIXED: Final = ("control", "crash", "system")
"""Folders in which that is true of the files that use `SERVER_INSIDE`."""
SERVER_INSIDE: Final = "tests.threaded_server"
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
