"""Celery with quorum queues: the broker itself keeps what is for later; chords; lost processes."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery, chain, chord, group

from tests.interop.celery_quorum_tasks import QUEUE, add, die_once, succeed_after, tell_time, total
from tests.interop.celery_quorum_tasks import app as celery_app
from tests.interop.celery_worker import CeleryWorker
from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

DELAY_LEVELS = 28


@pytest.fixture(scope="module")
def app(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """Return the tasks' application, with the server of this file as its broker."""
    host, port = address
    results: Path = tmp_path_factory.mktemp("results")
    celery_app.conf.broker_url = f"amqp://guest:guest@{host}:{port}//"
    celery_app.conf.result_backend = f"file://{results}"
    yield celery_app
    celery_app.close()


@pytest.fixture(scope="module", autouse=True)
def worker(app: Celery) -> Iterator[CeleryWorker]:
    """Run a worker that forks, as it does by default."""
    running = CeleryWorker(
        app,
        app.conf.broker_url,
        QUEUE,
        pool="prefork",
        module="tests.interop.celery_quorum_tasks",
        environment={"CELERY_RESULT_BACKEND": app.conf.result_backend},
    )
    with running:
        running.wait_until_ready()
        yield running


def test_a_result_comes_back() -> None:
    assert add.delay(2, 3).get(timeout=HANG_SECONDS) == 5


def test_a_chain_hands_results_on() -> None:
    assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=HANG_SECONDS) == 10


def test_a_chord_waits_for_all_of_its_group() -> None:
    result = chord([add.s(number, number) for number in range(10)])(total.s())
    assert result.get(timeout=HANG_SECONDS) == 90


def test_a_chain_goes_on_behind_a_group() -> None:
    result = chain(group(add.s(1, 1), add.s(2, 2)), total.s(), add.s(10))()
    assert result.get(timeout=HANG_SECONDS) == 16


def test_the_worker_has_declared_all_levels_of_delay(app: Celery) -> None:
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        for level in range(DELAY_LEVELS):
            channel.queue_declare(f"celery_delayed_{level}", passive=True)


def test_a_task_for_later_waits_in_the_broker(app: Celery) -> None:
    begin = time.time()
    result = tell_time.apply_async(countdown=2)
    with app.connection_for_read() as connection:
        waiting = connection.default_channel.queue_declare("celery_delayed_1", passive=True)
    assert waiting.message_count == 1 or time.time() - begin >= 2
    assert result.get(timeout=HANG_SECONDS) - begin >= 2


def test_a_task_for_a_point_in_time_waits_until_then() -> None:
    at = datetime.now(UTC) + timedelta(seconds=3)
    ran = tell_time.apply_async(eta=at).get(timeout=HANG_SECONDS)
    # The delay is whole seconds, and the worker itself waits for what is left of it.
    assert ran >= at.timestamp()


def test_later_tasks_do_not_hold_up_those_for_now() -> None:
    begin = time.monotonic()
    later = [add.apply_async((number, 0), countdown=3) for number in range(10)]
    assert add.delay(1, 1).get(timeout=HANG_SECONDS) == 2
    assert not any(result.ready() for result in later) or time.monotonic() - begin >= 3
    assert [result.get(timeout=HANG_SECONDS) for result in later] == list(range(10))


def test_a_task_is_retried_later() -> None:
    begin = time.monotonic()
    assert succeed_after.delay(2).get(timeout=HANG_SECONDS) == 2
    assert time.monotonic() - begin >= 2


def test_a_task_whose_process_is_killed_is_done_by_another() -> None:
    assert die_once.delay().get(timeout=HANG_SECONDS) == "survived"
