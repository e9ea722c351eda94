"""Tasks that a real Celery worker runs: `celery -A tests.interop.celery_tasks worker`.

The broker's URL comes from the environment, as `CELERY_BROKER_URL`.
"""

import os
import socket
from typing import Any

from celery import Celery

app = Celery("interop", broker=os.environ.get("CELERY_BROKER_URL", "amqp://"), backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_default_queue=os.environ.get("CELERY_QUEUE", "interop"),
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)


@app.task  # type: ignore[untyped-decorator]
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


@app.task(bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def succeed_after(self: Any, failures: int) -> int:  # noqa: ANN401 - Celery has no types
    """Fail so many times, be retried each time, and return how often that was."""
    retries: int = self.request.retries
    if retries < failures:
        raise self.retry(countdown=0.05)
    return retries


@app.task  # type: ignore[untyped-decorator]
def fail(text: str) -> None:
    """Raise an error."""
    raise ValueError(text)


@app.task(acks_late=True)  # type: ignore[untyped-decorator]
def ask(port: int) -> str:
    """Connect to a port of this machine, and return what it says once it says something."""
    with socket.create_connection(("127.0.0.1", port)) as asking:
        return asking.recv(100).decode()
