"""A Celery worker in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

PING_SECONDS = 1.0


class CeleryWorker:
    """One `celery worker`; as a context manager it is ended with the block.

    Args:
        app: The application, as the test has it: it asks the worker whether it is there.
        url: The broker.
        queue: What it consumes from.
        pool: `solo` or `prefork`.
        module: Where the application is.
        environment: Variables in addition to those of this process.
    """

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - Celery has no types
        url: str,
        queue: str,
        pool: str = "solo",
        *,
        module: str = "tests.interop.celery_tasks",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.app = app
        self.name = f"{queue}@worker"
        options = [
            f"--pool={pool}", "--concurrency=1", "--task-events", "--without-mingle",
            f"--queues={queue}", f"--hostname={self.name}",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", module, "worker", *options],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "CELERY_BROKER_URL": url,
                "CELERY_QUEUE": queue,
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        """Return it at once; see `wait_until_ready`."""
        return self

    def wait_until_ready(self) -> None:
        """Return when it answers; one that runs a task in the pool `solo` does not."""
        for _ in range(int(HANG_SECONDS / PING_SECONDS)):
            assert self._process.poll() is None, "the worker has ended"
            if self.app.control.ping([self.name], timeout=PING_SECONDS, limit=1):
                return
        raise AssertionError("the worker does not answer")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it as an operator would; it has to end by itself."""
        self._process.terminate()
        try:
            self._process.wait(HANG_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()
