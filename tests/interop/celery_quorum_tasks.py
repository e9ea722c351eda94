"""Tasks for `celery -A tests.interop.celery_quorum_tasks worker`: quorum queues, results in files.

With quorum queues Celery leaves the waiting of later tasks to the broker (native delayed
delivery), and a backend other than `rpc://` can do chords. The URLs of broker and backend come
from the environment, as `CELERY_BROKER_URL` and `CELERY_RESULT_BACKEND`.
"""

import os
import signal
import time
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

QUEUE = "interop-quorum"

app = Celery(
    "interop-quorum",
    broker=os.environ.get("CELERY_BROKER_URL", "amqp://"),
    backend=os.environ.get("CELERY_RESULT_BACKEND", "rpc://"),
)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    result_chord_retry_interval=0.2,
    task_default_queue=QUEUE,
    task_default_routing_key=QUEUE,
    task_default_exchange=QUEUE,
    task_default_exchange_type="topic",
    task_queues=[
        Queue(
            QUEUE,
            Exchange(QUEUE, "topic"),
            routing_key=QUEUE,
            queue_arguments={"x-queue-type": "quorum"},
        )
    ],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)


@app.task  # type: ignore[untyped-decorator]
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


@app.task  # type: ignore[untyped-decorator]
def total(numbers: list[int]) -> int:
    """Return the sum of all."""
    return sum(numbers)


@app.task  # type: ignore[untyped-decorator]
def tell_time() -> float:
    """Return when it ran, in seconds since 1970."""
    return time.time()


@app.task(bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def succeed_after(self: Any, failures: int) -> int:  # noqa: ANN401 - Celery has no types
    """Fail so many times, be retried a second later each time, and return how often that was."""
    retries: int = self.request.retries
    if retries < failures:
        raise self.retry(countdown=1)
    return retries


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)  # type: ignore[untyped-decorator]
def die_once(self: Any) -> str:  # noqa: ANN401
    """End the process that runs it, the first time."""
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"
