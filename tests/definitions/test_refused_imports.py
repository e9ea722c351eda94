"""Imports that are refused: at the limit and not before it, and without leaving anything."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from amqp_server.definitions_file.entry import Entry
from amqp_server.definitions_file.errors import DefinitionsError, ImportFailedError
from amqp_server.definitions_file.import_plan import ImportPlan
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.threaded_server import ThreadedServer


def test_as_many_new_objects_as_the_limit_allows_are_planned() -> None:
    plan = ImportPlan({}, None, "")
    for index in range(3):
        plan.count_new(Entry("queues", index, "", {}), "vhost 'v'", existing=7, most=10)
    # Another virtual host has a limit of its own, and so has another section.
    plan.count_new(Entry("queues", 3, "", {}), "vhost 'w'", existing=9, most=10)
    plan.count_new(Entry("exchanges", 0, "", {}), "vhost 'v'", existing=9, most=10)
    with pytest.raises(DefinitionsError, match="vhost 'v' would have more than 10 queues"):
        plan.count_new(Entry("queues", 4, "", {}), "vhost 'v'", existing=7, most=10)


def entries() -> list[Entry]:
    """Return a new virtual host, with objects there and in the default one."""
    queue = {"durable": True, "auto_delete": False, "arguments": {}}
    exchange = {"type": "topic", "durable": True, "auto_delete": False, "arguments": {}}
    binding = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    found = [Entry("vhosts", 0, "", {"name": "new"})]
    for index, vhost in enumerate(("new", "/")):
        found.append(Entry("queues", index, "", {"name": "q", "vhost": vhost, **queue}))
    for index, vhost in enumerate(("new", "/")):
        found.append(Entry("exchanges", index, "", {"name": "x", "vhost": vhost, **exchange}))
    for index, vhost in enumerate(("new", "/")):
        fields = {"vhost": vhost, "arguments": {}, **binding}
        found.append(Entry("bindings", index, "", fields))
    return found


def test_nothing_of_a_failed_import_stays(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    with ThreadedServer(tmp_path / "data", filesystem) as threaded:
        server = threaded.server
        broker = server.broker

        def state() -> tuple[object, ...]:
            default = broker.vhosts["/"]
            return (
                list(broker.vhosts),
                list(default.queues),
                list(default.exchanges),
                default.binding_count,
                len(broker.storage._stores),
            )

        before = threaded.call(state)
        filesystem.error = errno.EIO
        filesystem.failing_operations = 1
        filesystem.fail_at = len(filesystem.operations)
        with pytest.raises(ImportFailedError):
            threaded.run(lambda: server.definitions.run(entries()))
        filesystem.fail_at = None
        assert threaded.call(state) == before
        # And all of it can be imported now.
        report = threaded.run(lambda: server.definitions.run(entries()))
        assert report is not None
        assert threaded.call(lambda: list(broker.vhosts)) == ["/", "new"]
        assert threaded.call(lambda: len(broker.storage._stores)) == 2
