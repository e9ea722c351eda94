"""What a running stream asks of a running server: to keep what it has not read yet.

One lease for each queue, from the offset on that the stream has committed. A thread renews them,
because Spark does not ask the driver for anything while a batch runs, however long. They end
with the stream, or by themselves two minutes after its process was killed.

Without leases a stream is as right as with them: what retention takes, it finds out.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final
from uuid import UUID

from appendlog.errors import LogError
from appendlog.reclaim.leases import LEASE_SECONDS, HeldLease
from appendlog.spark.objects.location import Location

logger = logging.getLogger(__name__)

_RENEWAL_SECONDS: Final = LEASE_SECONDS / 4


class StreamLeases:
    """The leases of one stream. Thread-safe.

    Args:
        storage_path: The data directory. In a store there are no leases: nothing is removed there.
        vhost: Virtual host of all queues.
    """

    def __init__(self, storage_path: Path, vhost: str) -> None:
        self._storage_path = storage_path
        self._vhost = vhost
        self._is_in_store = Location.of(storage_path) is not None
        self._lock = threading.Lock()
        self._held: dict[UUID, HeldLease] = {}
        self._low_offsets: dict[UUID, int] = {}
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._retry_seconds = 0.0
        self._is_told = False

    def take(self, places: Iterable[tuple[str, UUID, int]]) -> None:
        """Hold logs from offsets on; what is held already stays as it is.

        Args:
            places: Queue, its incarnation, and the first offset that is to stay.
        """
        if self._is_in_store:
            return
        with self._lock:
            for queue, incarnation, offset in places:
                if incarnation not in self._held:
                    self._take(queue, incarnation, offset)
            if self._held and self._thread is None:
                self._thread = threading.Thread(
                    target=self._renew_all, name="amqplog-leases", daemon=True
                )
                self._thread.start()

    def keep(self, incarnations: Collection[UUID]) -> None:
        """Give back the leases of all others."""
        with self._lock:
            for incarnation in self._held.keys() - incarnations:
                self._held.pop(incarnation).end()

    def move(self, incarnation: UUID, offset: int) -> None:
        """Let go of what is below an offset of a log: it will never be read again.

        The server hears of it with the next renewal: a stream may have many batches a second.
        """
        with self._lock:
            if incarnation in self._held:
                self._low_offsets[incarnation] = offset

    def low_offsets(self) -> dict[UUID, int]:
        """Return from where on each log is held."""
        with self._lock:
            return {name: self._low_offsets[name] for name in self._held}

    def end(self) -> None:
        """Give all leases back."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            for held in self._held.values():
                held.end()
            self._held.clear()

    def _take(self, queue: str, incarnation: UUID, offset: int) -> None:
        if time.monotonic() < self._retry_seconds:
            return
        try:
            self._held[incarnation] = HeldLease.take(
                self._storage_path, self._vhost, queue, incarnation, offset
            )
        except (OSError, LogError) as error:
            self._refused(queue, error)
        else:
            self._low_offsets[incarnation] = offset

    def _renew(self, incarnation: UUID) -> None:
        held, offset = self._held[incarnation], self._low_offsets[incarnation]
        try:
            if offset > held.lease.low_offset:
                held.renew(offset)
            else:
                held.renew_when_due()
        except OSError as error:
            del self._held[incarnation]
            self._refused(held.lease.queue, error)

    def _refused(self, queue: str, error: Exception) -> None:
        """Go on without a lease, and try again later; say so once."""
        self._retry_seconds = time.monotonic() + _RENEWAL_SECONDS
        if not self._is_told:
            self._is_told = True
            logger.warning(
                "no lease on the log of queue %r: retention may remove what the stream has not "
                "read yet: %s",
                queue,
                error,
            )

    def _renew_all(self) -> None:
        while not self._is_over.wait(_RENEWAL_SECONDS):
            with self._lock:
                for incarnation in list(self._held):
                    self._renew(incarnation)
