"""Celery in a test run: its applications use one virtual host, and its workers answer at once."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

LOOK_SECONDS: Final = 0.01
"""Seconds between two looks of a worker at what it should do; Celery has 1 to 10."""
_URL_VARIABLES: Final = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
_BACKEND_VARIABLE: Final = "CELERY_RESULT_BACKEND"


def celery_settings(url: str) -> dict[str, Any]:
    """Return the settings with which an application uses a broker of a test, and nothing else.

    Args:
        url: URL of the virtual host.
    """
    return {
        "broker_url": url,
        "broker_read_url": url,
        "broker_write_url": url,
        # Results stay in this process: the worker of a test is a thread of it.
        "result_backend": "cache+memory://",
        # Settings for tests often have it, and then nothing reaches the broker.
        "task_always_eager": False,
        # Otherwise a worker takes the handlers away with which pytest captures logs.
        "worker_hijack_root_logger": False,
    }


class CeleryWiring:
    """Celery's use of one virtual host, from the beginning of `with` to its end.

    It takes care of all applications that use the settings, of their workers in this process and
    of the connections that they keep. Environment variables that would send Celery to another
    broker name this one during that time.

    Args:
        url: URL of the virtual host.
        is_running: Returns whether its broker runs.

    Attributes:
        settings: Settings of applications, for `celery_config` of Celery's fixtures.
    """

    def __init__(self, url: str) -> None:
        self.settings = celery_settings(url)
        self._url = url
        self._leaving = ExitStack()

    def connect(self, app: Any, **settings: Any) -> Any:  # noqa: ANN401 - Celery has no types
        """Let an application use the virtual host until the end; return it.

        Args:
            app: Application of the code under test.
            settings: Other settings of Celery, such as `result_backend`.
        """
        # It registers the task that `celery_worker` asks a new worker for.
        import celery.contrib.testing.tasks  # noqa: F401

        _ = app.conf.broker_url  # loads settings that are read at their first use
        changes = app.conf.changes
        self._leaving.callback(_replace, changes, dict(changes))
        self._leaving.callback(_forget_connections, app)
        app.conf.update({**self.settings, **settings})
        _forget_connections(app)
        return app

    def __enter__(self) -> Self:
        from celery.contrib.testing.worker import test_worker_started

        test_worker_started.connect(self._keep_awake, weak=False)
        self._leaving.callback(test_worker_started.disconnect, self._keep_awake)
        before = dict(os.environ)
        self._leaving.callback(_restore_environment, before)
        for name in _URL_VARIABLES:
            if name in os.environ:
                os.environ[name] = self._url
        os.environ.pop(_BACKEND_VARIABLE, None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _close_pools(self._url)
        self._leaving.close()

    def _keep_awake(self, sender: Any, worker: Any, **_: Any) -> None:  # noqa: ANN401
        """Let a worker look up often; Celery calls this in its thread, after each reconnect too.

        Otherwise it may wait ten seconds for its next timer, with an ack that it has not sent yet,
        or after it was asked to end. Celery's fixture then fails.
        """
        if sender.conf.broker_read_url == self._url:
            worker.timer.call_repeatedly(LOOK_SECONDS, _look)


def _look() -> None:
    """Do nothing: it is enough that the worker wakes up for it."""


def _replace(changes: dict[str, Any], before: dict[str, Any]) -> None:
    changes.clear()
    changes.update(before)


def _restore_environment(before: dict[str, str]) -> None:
    for name in (*_URL_VARIABLES, _BACKEND_VARIABLE):
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)


def _forget_connections(app: Any) -> None:  # noqa: ANN401
    """Let an application read its settings again when it needs the broker or the backend.

    Celery has no public way to do that. It does the same after a fork, and in its own fixtures.
    """
    app._pool = None
    app.amqp._producer_pool = None
    app._backend_cache = None
    app._local.backend = None


def _close_pools(url: str) -> None:
    """Close the connections to a virtual host that kombu keeps for later."""
    pools = sys.modules.get("kombu.pools")
    if pools is None:
        return
    import kombu

    place = _place(kombu.Connection(url))
    for group in (pools.producers, pools.connections):
        for key, pool in list(group.items()):
            # A pool of producers takes its connections from another pool.
            if _place(getattr(pool, "connections", pool).connection) == place:
                pool.force_close_all()
                group.pop(key, None)


def _place(connection: Any) -> tuple[object, ...]:  # noqa: ANN401
    return connection.hostname, connection.port, connection.virtual_host
