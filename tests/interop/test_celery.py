"""Celery, unmodified: a real worker, tasks of all kinds, its remote control and its events."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError

from tests.conftest import StartServer
from tests.interop.celery_tasks import add, ask, fail, succeed_after
from tests.interop.celery_tasks import app as celery_app
from tests.interop.celery_worker import CeleryWorker
from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

QUEUE = "interop"


@pytest.fixture(scope="module")
def broker_url(address: Address) -> str:
    """Return the server's address as Celery wants it."""
    host, port = address
    return f"amqp://guest:guest@{host}:{port}//"


@pytest.fixture(scope="module")
def app(broker_url: str) -> Iterator[Celery]:
    """Return the tasks' application, with the server of this file as its broker."""
    celery_app.conf.broker_url = broker_url
    yield celery_app
    celery_app.backend.result_consumer.stop()
    celery_app.close()


@pytest.fixture(scope="module")
def worker(app: Celery, broker_url: str) -> Iterator[CeleryWorker]:
    """Run a worker that forks, as it does by default."""
    with CeleryWorker(app, broker_url, QUEUE, pool="prefork") as running:
        running.wait_until_ready()
        yield running


@pytest.mark.usefixtures("worker")
class TestTasks:
    def test_a_result_comes_back(self) -> None:
        assert add.delay(2, 3).get(timeout=HANG_SECONDS) == 5

    def test_an_error_comes_back(self) -> None:
        with pytest.raises(ValueError, match="told to"):
            fail.delay("told to").get(timeout=HANG_SECONDS)

    def test_a_group_gives_all_results(self) -> None:
        results = group(add.s(number, number) for number in range(20))()
        assert results.get(timeout=HANG_SECONDS) == [2 * number for number in range(20)]

    def test_a_chain_hands_results_on(self) -> None:
        assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=HANG_SECONDS) == 10

    def test_a_task_is_retried(self) -> None:
        assert succeed_after.delay(3).get(timeout=HANG_SECONDS) == 3

    def test_tasks_for_later_do_not_hold_up_those_for_now(self) -> None:
        """The worker raises its running consumer's prefetch limit for each task that waits."""
        begin = time.monotonic()
        later = [add.apply_async((number, 0), countdown=10) for number in range(10)]
        assert add.delay(1, 1).get(timeout=HANG_SECONDS) == 2
        assert not any(result.ready() for result in later) or time.monotonic() - begin >= 10
        assert [result.get(timeout=HANG_SECONDS) for result in later] == list(range(10))

    def test_a_chord_is_refused_by_the_rpc_backend_itself(self) -> None:
        with pytest.raises(NotImplementedError):
            chord([add.s(1, 1)])(add.s(1))


class TestControl:
    def test_a_ping_is_answered(self, app: Celery, worker: CeleryWorker) -> None:
        assert app.control.ping(timeout=HANG_SECONDS, limit=1) == [{worker.name: {"ok": "pong"}}]

    def test_a_worker_can_be_inspected(self, app: Celery, worker: CeleryWorker) -> None:
        inspect = app.control.inspect([worker.name], timeout=HANG_SECONDS, limit=1)
        registered = inspect.registered()[worker.name]
        assert "tests.interop.celery_tasks.add" in registered
        assert [queue["name"] for queue in inspect.active_queues()[worker.name]] == [QUEUE]
        assert inspect.stats()[worker.name]["prefetch_count"] == 1

    def test_a_waiting_task_can_be_revoked(self, app: Celery, worker: CeleryWorker) -> None:
        result = add.apply_async((1, 1), countdown=2)
        replies = app.control.revoke(
            result.id, reply=True, timeout=HANG_SECONDS, limit=1, destination=[worker.name]
        )
        assert "ok" in replies[0][worker.name]
        with pytest.raises(TaskRevokedError):
            result.get(timeout=HANG_SECONDS)

    def test_a_worker_takes_up_and_leaves_another_queue(
        self, app: Celery, worker: CeleryWorker
    ) -> None:
        options: dict[str, Any] = {
            "reply": True, "timeout": HANG_SECONDS, "limit": 1, "destination": [worker.name],
        }  # fmt: skip
        app.control.add_consumer("interop-more", **options)
        assert add.apply_async((1, 2), queue="interop-more").get(timeout=HANG_SECONDS) == 3
        app.control.cancel_consumer("interop-more", **options)
        with app.connection_for_read() as connection:
            counts = connection.default_channel.queue_declare("interop-more", passive=True)
        assert (counts.message_count, counts.consumer_count) == (0, 0)

    def test_events_of_a_task_are_received(self, app: Celery, worker: CeleryWorker) -> None:
        seen: dict[str, list[str]] = {}
        sent: list[str] = []

        def remember(event: dict[str, Any]) -> None:
            if "uuid" in event:
                assert event["hostname"] == worker.name
                seen.setdefault(event["uuid"], []).append(event["type"])

        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": remember})
            receiver.on_consume_ready = lambda *_, **__: sent.append(add.delay(1, 1).id)
            for _ in receiver.consume(limit=None, timeout=HANG_SECONDS):
                receiver.should_stop = "task-succeeded" in seen.get(sent[0], [])
        assert seen[sent[0]] == ["task-received", "task-started", "task-succeeded"]


def test_a_task_that_is_acknowledged_late_survives_its_worker(app: Celery, broker_url: str) -> None:
    queue = "interop-late"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANG_SECONDS)
        with CeleryWorker(app, broker_url, queue) as first:
            first.wait_until_ready()
            result = ask.apply_async((listener.getsockname()[1],), queue=queue)
            asked, _ = listener.accept()
            first.kill()
            asked.close()
        with CeleryWorker(app, broker_url, queue):
            again, _ = listener.accept()
            with again:
                again.sendall(b"answered")
            assert result.get(timeout=HANG_SECONDS) == "answered"


def test_a_worker_lives_through_a_restart_of_the_server(
    app: Celery, start_server: StartServer
) -> None:
    queue = "interop-restart"
    server = start_server()
    server.options += ("--port", str(server.port))
    url = f"amqp://guest:guest@{server.host}:{server.port}//"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        CeleryWorker(app, url, queue, pool="prefork"),
    ):
        listener.settimeout(HANG_SECONDS)
        for _ in range(3):
            with kombu.Connection(url) as connection:
                ask.apply_async((listener.getsockname()[1],), queue=queue, connection=connection)
            asked, _ = listener.accept()
            asked.close()
            server.kill()
            server.restart()
