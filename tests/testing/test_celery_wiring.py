"""Celery's applications and workers at the broker of a test."""

import os
from collections.abc import Iterator

import pytest
from celery import Celery

from amqp_server.testing import Broker
from amqp_server.testing.celery_wiring import CeleryWiring

pytest_plugins = "pytester"
pytestmark = pytest.mark.crash

NOWHERE = "amqp://nobody@127.0.0.1:1/nowhere"
OURS = ("-p", "amqp_server.testing.plugin", "-p", "celery.contrib.pytest")


def print_order(order: str) -> None:
    print(order)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def app() -> Iterator[Celery]:
    """Return an application whose own broker is not there."""
    app = Celery("orders", broker=NOWHERE, set_as_current=False)
    app.conf.task_always_eager = True
    app.task(print_order, name="orders.print")
    yield app
    app.close()


def test_an_application_uses_the_broker_for_a_time(broker: Broker, app: Celery) -> None:
    with CeleryWiring(broker.url) as wiring:
        assert wiring.connect(app) is app
        app.tasks["orders.print"].delay("x")
        message = broker.assert_published("celery", headers={"task": "orders.print"})
        assert message.json()[0] == ["x"]
    assert app.conf.broker_url == app.conf.broker_read_url == NOWHERE
    assert app.conf.task_always_eager
    assert app.conf.result_backend is None


def test_its_connections_are_closed_at_the_end(broker: Broker, app: Celery) -> None:
    with broker.new_vhost() as other, CeleryWiring(other.url) as kept:
        kept.connect(app)
        app.tasks["orders.print"].delay("x")
        with CeleryWiring(broker.url) as wiring:
            wiring.connect(app)
            app.tasks["orders.print"].delay("y")
            broker.assert_published("celery")
        broker.clock.advance()
        assert broker.view().connections == ()
        assert len(other.view().connections) == 1
        app.tasks["orders.print"].delay("z")
        other.assert_published("celery", json=[["z"], {}, _NOTHING_ELSE])


_NOTHING_ELSE = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def test_settings_of_the_test_win(broker: Broker, app: Celery) -> None:
    with CeleryWiring(broker.url) as wiring:
        wiring.connect(app, result_backend="rpc://", task_default_queue="other")
        assert app.conf.result_backend == "rpc://"
        app.tasks["orders.print"].delay("x")
        broker.assert_published("other")


def test_the_environment_sends_no_task_elsewhere(
    broker: Broker, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", NOWHERE)
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", NOWHERE)
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://127.0.0.1:1")
    before = dict(os.environ)
    with CeleryWiring(broker.url) as wiring:
        wiring.connect(app)
        app.tasks["orders.print"].delay("x")
        broker.assert_published("celery")
        assert app.conf.result_backend == "cache+memory://"
        assert "CELERY_BROKER_READ_URL" not in os.environ
    assert dict(os.environ) == before


WORKERS = """
import pytest
from celery import shared_task

done = []

@shared_task
def note(number):
    done.append(number)

@pytest.fixture(scope="session")
def celery_worker_parameters():
    return {"perform_ping_check": False}

@pytest.fixture(scope="SCOPE")
def celery_config(amqp_celery_SCOPED):
    return amqp_celery_SCOPED

@pytest.mark.parametrize("number", range(3))
def test_a_worker_works(celery_SCOPED_app, celery_SCOPED_worker, number):
    note.delay(number).get(timeout=120, interval=0.01)
    assert done.pop() == number

def test_acks_are_sent_at_once(celery_SCOPED_app, celery_SCOPED_worker, amqp_session_broker):
    for number in range(5):
        note.delay(number)
    amqp_session_broker.clock.advance(answer_seconds=30, seconds_max=120)
    assert done == [0, 1, 2, 3, 4]

def test_a_worker_that_has_a_task_for_later_ends(celery_SCOPED_app, celery_SCOPED_worker):
    note.apply_async((1,), countdown=3600)
    note.delay(2).get(timeout=120, interval=0.01)
    assert done.pop() == 2
"""


@pytest.mark.parametrize(
    ("scope", "config", "prefix"),
    [("function", "config", ""), ("session", "session_config", "session_")],
)
def test_celerys_fixtures_use_the_broker(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    scope: str,
    config: str,
    prefix: str,
) -> None:
    """Without the wiring, a worker with a task for later lets its fixture fail after 10 s."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    code = WORKERS.replace("amqp_celery_SCOPED", f"amqp_celery_{config}")
    pytester.makepyfile(code.replace("SCOPED_", prefix).replace("SCOPE", scope))
    result = pytester.runpytest_subprocess("-W", "error", *OURS, timeout=60)
    result.assert_outcomes(passed=5)


OWN_APPLICATION = """
import pytest
from celery import Celery

app = Celery("shop", broker="amqp://nobody@127.0.0.1:1/nowhere")
app.conf.task_always_eager = True

@app.task
def double(number):
    return 2 * number

@pytest.fixture
def celery_app(amqp_celery_app):
    return amqp_celery_app(app)

@pytest.mark.parametrize("number", range(3))
def test_a_worker_works(amqp_broker, celery_worker, number):
    assert double.delay(number).get(timeout=120) == 2 * number
    amqp_broker.assert_published("celery", headers={"task": double.name})
"""


QUORUM = """
import pytest
from celery import Celery
from kombu import Exchange, Queue

QUEUE = Queue(
    "notes", Exchange("notes", "topic"), routing_key="notes",
    queue_arguments={"x-queue-type": "quorum"},
)
app = Celery("notes")
app.conf.update(task_default_queue="notes", task_queues=[QUEUE])
done = []

@app.task
def note(number):
    done.append(number)

@pytest.fixture
def celery_app(amqp_celery_app):
    return amqp_celery_app(app)

@pytest.fixture(scope="session")
def celery_worker_parameters():
    return {"perform_ping_check": False}

def test_the_broker_delays_and_then_the_worker_waits_once_more(amqp_broker, celery_worker):
    note.apply_async((1,), countdown=3600)
    amqp_broker.clock.advance(minutes=59)
    assert amqp_broker.queue("notes").published == 0
    amqp_broker.clock.advance(minutes=2)
    note.delay(2).get(timeout=120, interval=0.01)
    assert amqp_broker.queue("notes").published == 2
    assert done == [2]
"""


@pytest.mark.parametrize(("code", "passed"), [(OWN_APPLICATION, 3), (QUORUM, 1)])
def test_a_worker_of_an_application_of_the_user(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, code: str, passed: int
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess("-W", "error", *OURS, timeout=60)
    result.assert_outcomes(passed=passed)


def test_a_test_without_celerys_fixtures_says_where_they_are(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(OWN_APPLICATION)
    result = pytester.runpytest_subprocess(*OURS[:2], timeout=60)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        ["*fixture 'celery_worker' not found*", "*-p celery.contrib.pytest*"]
    )


def test_settings_of_one_test_in_a_wider_scope_say_what_to_do(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    code = WORKERS.replace("amqp_celery_SCOPED", "amqp_celery_config")
    pytester.makepyfile(code.replace("SCOPED_", "").replace("SCOPE", "session"))
    result = pytester.runpytest_subprocess(*OURS, timeout=60)
    result.assert_outcomes(errors=5)
    result.stdout.fnmatch_lines(["ScopeMismatch: *", "*amqp_celery_session_config"])
