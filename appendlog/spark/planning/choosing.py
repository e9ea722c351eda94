"""Chooses the queues that a job reads: by names, a pattern, or an assignment, as for Kafka.

The data source (`subscribe`, `subscribePattern`, `assign`) and the export (`--queue`, `--pattern`)
share it. A log of a program that embeds `appendlog` counts as a queue.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from appendlog.spark.errors import NoQueueMatchesError, SubscriptionError
from appendlog.spark.objects.store_options import NO_OPTIONS, StoreOptions
from appendlog.spark.planning.queues import NEAR_MAX, QueueLog, find_queue, list_queues
from appendlog.spark.schema.columns import PARTITION


@dataclass(frozen=True, slots=True)
class Subscription:
    """Queues that a user asked for; picklable.

    Attributes:
        names: Names of queues, sorted, each once; empty if there is a pattern.
        pattern: Regular expression that the whole name of a queue must match.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def to_names(cls, text: str) -> Self:
        """Parse names with commas between them; spaces around a name do not count.

        A name with a comma in it can only be written as an assignment.

        Raises:
            SubscriptionError: The text has no name.
        """
        names = {name.strip() for name in text.split(",")} - {""}
        if not names:
            raise SubscriptionError(f"{text!r} names no queue: write orders or orders,invoices")
        return cls(tuple(sorted(names)))

    @classmethod
    def to_pattern(cls, pattern: str) -> Self:
        """Return a subscription to the queues whose whole names match a regular expression.

        Raises:
            SubscriptionError: The text is no regular expression.
        """
        try:
            re.compile(pattern)
        except re.error as error:
            raise SubscriptionError(f"{pattern!r} is no regular expression: {error}") from error
        return cls(pattern=pattern)

    @classmethod
    def to_assignment(cls, text: str) -> Self:
        """Parse a JSON object such as `{"orders": [0]}`.

        Raises:
            SubscriptionError: The text is no such object, names no queue, or names another
                partition than 0.
        """
        advice = f'write {{"orders": [{PARTITION}]}}'
        try:
            assigned = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SubscriptionError(f"{text!r:.300} is no JSON ({error}): {advice}") from error
        if not isinstance(assigned, dict) or not assigned:
            raise SubscriptionError(f"{text!r} is no JSON object with queues: {advice}")
        for name, partitions in assigned.items():
            if partitions != [PARTITION]:
                raise SubscriptionError(
                    f"queue {name!r} has one partition, {PARTITION}, "
                    f"found {json.dumps(partitions)}: {advice}"
                )
        return cls(tuple(sorted(assigned)))


def choose_queues(
    storage_path: Path,
    vhost: str,
    wanted: Subscription,
    store_options: StoreOptions = NO_OPTIONS,
) -> Sequence[QueueLog]:
    """Return the logs of a subscription, ordered by name; reads definitions only.

    Args:
        storage_path: Data directory of a server, or of a program that embeds logs.
        vhost: Virtual host of all the queues.
        wanted: Queues to choose.
        store_options: Options of the object store, if the data directory is in one.

    Raises:
        StoreError: The store cannot be used.
        StorageNotFoundError: There is no data directory, or a definition is unreadable.
        QueueNotFoundError: A queue that was named does not exist; names the nearest.
        NoQueueMatchesError: No queue matches the pattern at this moment.
    """
    if wanted.pattern is None:
        return [find_queue(storage_path, vhost, name, store_options) for name in wanted.names]
    logs = list_queues(storage_path, vhost, store_options)
    matches = re.compile(wanted.pattern).fullmatch
    chosen = [log for log in logs if matches(log.queue)]
    if not chosen:
        raise NoQueueMatchesError(
            vhost, wanted.pattern, [log.queue for log in logs[:NEAR_MAX]], len(logs)
        )
    return chosen
