"""What a migration says that differs: each thing once, and of the objects that it concerns."""

from __future__ import annotations

from typing import Any

from amqp_server.definitions_file.entry import Entry
from cli.migrate.definitions import Definitions
from cli.migrate.differences import differences


def lines(*entries: tuple[str, dict[str, Any]], refused: tuple[str, ...] = ()) -> list[str]:
    """Return the lines about some definitions."""
    found = Definitions([Entry(section, 0, "", fields) for section, fields in entries], "3.10.8")
    found.refused += refused
    return [each.line for each in differences(found, ())]


def test_a_queue_with_two_limits_is_named_once() -> None:
    arguments = {"x-max-length": 1, "x-max-length-bytes": 1}
    (line,) = lines(("queues", {"name": "q", "durable": True, "arguments": arguments}))

    assert line.endswith(": q")


def test_policies_are_not_among_the_queues() -> None:
    found = lines(
        ("queues", {"name": "q", "durable": True, "arguments": {"x-queue-type": "quorum"}}),
        ("policies", {"name": "ha", "definition": {"ha-mode": "all", "ha-sync-mode": "manual"}}),
    )

    assert found == [
        "policies for mirrored queues: queues have one copy here: ha",
        "queues have one copy here, on one machine: q",
    ]


def test_what_is_refused_twice_is_said_once() -> None:
    assert lines(refused=("policy 'p': no", "policy 'p': no")) == ["not taken over: policy 'p': no"]


def test_one_argument_of_copies_among_others_is_enough() -> None:
    arguments = {"x-max-priority": 3, "x-queue-leader-locator": "balanced"}
    assert lines(("queues", {"name": "q", "durable": True, "arguments": arguments})) == [
        "queues have one copy here, on one machine: q"
    ]
