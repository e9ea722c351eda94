"""Takes leases for a running stream, so that the server keeps what the stream has not read yet.

The stream has one lease for each queue, from the offset that it has committed. A thread renews the
leases, because Spark does not call the driver's reader while a batch runs, however long that takes.
The leases end with the stream. They expire two minutes after its process was killed.

A stream without leases is as correct: it finds out what retention has removed.
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

logger = logging.getLogger("appendlog.spark.source.stream_leases")

_RENEWAL_SECONDS: Final = LEASE_SECONDS / 4


class StreamLeases:
    """Leases of one stream. Thread-safe.

    Args:
        storage_path: Data directory. In an object store there are no leases: no server removes
            anything there.
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
        self._is_logged = False

    def take(self, places: Iterable[tuple[str, UUID, int]]) -> None:
        """Take leases of logs that have none yet.

        Args:
            places: Queue, its incarnation, and the first offset that the server must keep.
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
        """End the leases of all other logs."""
        with self._lock:
            for incarnation in self._held.keys() - incarnations:
                self._held.pop(incarnation).end()

    def move(self, incarnation: UUID, offset: int) -> None:
        """Release the offsets of a log below an offset: the stream never reads them again.

        The next renewal reports it to the server, since a stream may have many batches a second.
        """
        with self._lock:
            if incarnation in self._held:
                self._low_offsets[incarnation] = offset

    def low_offsets(self) -> dict[UUID, int]:
        """Return the first offset of each lease."""
        with self._lock:
            return {name: self._low_offsets[name] for name in self._held}

    def end(self) -> None:
        """End all leases."""
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
        """Continue without a lease and try again later; log it once."""
        self._retry_seconds = time.monotonic() + _RENEWAL_SECONDS
        if not self._is_logged:
            self._is_logged = True
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
