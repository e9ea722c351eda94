"""Fixtures of pytest: a real broker in the test run, empty for each test.

pytest loads this module in every run, so it imports nothing of the broker until a test uses it.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final

import pytest

from amqp_server.testing.faults import marker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from amqp_server.testing.broker import Broker
    from amqp_server.testing.broker_process import BrokerProcess
    from amqp_server.testing.celery_wiring import CeleryWiring
    from amqp_server.testing.virtual_host import VirtualHost

LEAK_SECONDS: Final = 0.2
"""Seconds in which the broker notices that a client has closed its connection."""
_FIXTURES_OF_CELERY: Final = frozenset(
    {"celery_app", "celery_session_app", "celery_session_worker", "celery_worker"}
)
_CELERY: Final[pytest.StashKey[CeleryWiring]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", marker.DESCRIPTION)


@pytest.fixture(scope="session")
def amqp_session_broker() -> Iterator[Broker]:
    """The broker of this test run; with xdist, that of this worker. All tests share it."""
    from amqp_server.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def amqp_broker(
    amqp_session_broker: Broker, request: pytest.FixtureRequest
) -> Iterator[VirtualHost]:
    """An empty virtual host of the broker of this run, with `url`, `host`, `port` and `vhost`."""
    vhost = amqp_session_broker.new_vhost()
    marks = [*request.node.iter_markers(marker.NAME)][::-1]
    with marker.marked_faults(marks, vhost.faults):
        yield vhost
    if not amqp_session_broker.is_running:
        # The test stopped it, and failed before the start: the next test must not fail too.
        amqp_session_broker.start()
    try:
        _warn_of_leaks(vhost, request.node.nodeid)
    finally:
        vhost.delete()


@pytest.fixture
def amqp_url(amqp_broker: VirtualHost) -> str:
    """URL of an empty virtual host of the broker of this run."""
    return amqp_broker.url


@pytest.fixture
def amqp_broker_process() -> Iterator[BrokerProcess]:
    """A broker in a process of its own, with `url`, `kill()`, `restart()` and real syncs."""
    from amqp_server.testing.broker_process import BrokerProcess

    with BrokerProcess() as process:
        yield process


@pytest.fixture
def amqp_celery_config(
    amqp_broker: VirtualHost, request: pytest.FixtureRequest
) -> Iterator[dict[str, Any]]:
    """Settings with which Celery uses the broker of this test: return it from `celery_config`."""
    from amqp_server.testing.celery_wiring import CeleryWiring

    with CeleryWiring(amqp_broker.url) as wiring:
        request.node.stash[_CELERY] = wiring
        yield dict(wiring.settings)


@pytest.fixture(scope="session")
def amqp_celery_session_config(amqp_session_broker: Broker) -> Iterator[dict[str, Any]]:
    """The same for `celery_session_app` and `celery_session_worker`: one broker for all tests."""
    from amqp_server.testing.celery_wiring import CeleryWiring

    with amqp_session_broker.new_vhost() as vhost, CeleryWiring(vhost.url) as wiring:
        yield dict(wiring.settings)


@pytest.fixture
def amqp_celery_app(
    amqp_celery_config: dict[str, Any], request: pytest.FixtureRequest
) -> Callable[..., Any]:
    """Call it with an application of yours, which uses the broker of this test until its end.

    For Celery's own fixtures return the application from a fixture named `celery_app`.
    """
    wiring: CeleryWiring = request.node.stash[_CELERY]
    return wiring.connect


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the broker holds to the report of a test that failed, and advice on Celery."""
    report = yield
    vhost = getattr(item, "funcargs", {}).get("amqp_broker")
    if call.when == "call" and report.failed and vhost is not None:
        try:
            text = str(vhost.view())
        except Exception as error:  # noqa: BLE001 - the test's own failure counts
            text = f"not available: {error}"
        report.sections.append(("AMQP broker", text))
    if call.excinfo is not None and (advice := _advice(call.excinfo.value)):
        report.sections.append(("Celery", advice))
    return report


def _advice(error: BaseException) -> str:
    """Return what helps against an error in the use of Celery's fixtures; empty for others."""
    if isinstance(error, pytest.FixtureLookupError) and str(error.argname) in _FIXTURES_OF_CELERY:
        return (
            "Celery's fixtures are not loaded: run pytest with -p celery.contrib.pytest, or write "
            "that into addopts of pytest's settings"
        )
    if "ScopeMismatch" in str(error) and "scoped fixture amqp_celery_config" in str(error):
        return (
            "return amqp_celery_config from a fixture without a scope: each test has a broker of "
            "its own. Celery's fixtures for the whole run take amqp_celery_session_config"
        )
    return ""


def _warn_of_leaks(vhost: VirtualHost, test: str) -> None:
    """Warn if clients of the test still have channels open, or messages unacked."""
    from amqp_server.testing.errors import BrokerLeakWarning

    end_seconds = time.monotonic() + LEAK_SECONDS
    # The broker may not have read yet that the client has closed.
    while (leaks := vhost.view().leaks) and time.monotonic() < end_seconds:
        time.sleep(LEAK_SECONDS / 100)
    if leaks:
        found = "; ".join(leaks)
        warnings.warn(f"{test} left behind: {found}", BrokerLeakWarning, stacklevel=1)
