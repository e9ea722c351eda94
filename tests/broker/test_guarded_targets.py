"""What is remembered for users who may not publish everywhere."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import ref

import pytest
from pamqp.commands import Queue

from amqp_server.access.passwords import PasswordHash
from amqp_server.access.permissions import Permissions
from amqp_server.access.user import User
from amqp_server.broker.publishing import guarded_targets
from amqp_server.broker.publishing.guarded_targets import GuardedTargets
from amqp_server.broker.rights import ALL_RIGHTS
from amqp_server.broker.virtual_host import REMOVED_MAX, VirtualHost
from amqp_server.protocol.methods import BasicPublish
from tests.amqp_client import connect
from tests.broker.bindings import an_exchange
from tests.threaded_server import ThreadedServer

if TYPE_CHECKING:
    from amqp_server.broker.rights import AnswersClient


def test_no_more_frames_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_targets, "FRAMES_MAX", 8)
    vhost = VirtualHost("/")
    vhost.add_exchange(an_exchange("work", "topic"))
    targets = GuardedTargets(vhost.publish_targets, ALL_RIGHTS, cast("AnswersClient", None))
    for number in range(30):
        payload = BasicPublish(exchange="work", routing_key=f"key{number}").encode()
        for _ in range(3):
            vhost.publish_targets.find(payload)
        assert targets.find_known(payload) is not None
        assert payload in targets.recent()
        assert len(targets.recent()) <= 8


@pytest.mark.interpreted("weak references")
def test_removed_queues_do_not_stay_in_memory(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        access = server.server.access

        def permit() -> None:
            access.users["worker"] = User("worker", PasswordHash.quick(b"secret"))
            access.permissions["/"]["worker"] = Permissions(".*", "^amq\\.default$", ".*")
            access.changed()

        server.call(permit)
        with connect(server.address, user="worker", password="secret") as client:
            client.open_channel(confirms=True)
            client.declare("q", durable=False)
            for _ in range(3):
                # One by one: the target of a frame that comes again is remembered.
                client.publish(b"x", "q")
                client.expect_confirmed()
            broker = server.server.broker
            queue = server.call(lambda: ref(broker.vhosts["/"].queues["q"]))
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
            for number in range(REMOVED_MAX):
                client.declare(f"other{number}", durable=False)
                client.call(Queue.Delete(queue=f"other{number}"), Queue.DeleteOk)
            client.declare("last", durable=False)
            client.publish(b"x", "last")
            client.expect_confirmed()
            server.call(gc.collect)
            assert queue() is None
