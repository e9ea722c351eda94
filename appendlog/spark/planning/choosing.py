"""Which queues a job reads: names, a pattern, or an assignment, in Kafka's three ways of saying it.

The same for the data source (`subscribe`, `subscribePattern`, `assign`) and for the export
(`--queue`, `--pattern`). Logs of programs that embed this library are queues here.
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
    """What was asked for; picklable.

    Attributes:
        names: Queues, sorted, each once; empty when there is a pattern.
        pattern: Regular expression that the whole name of a queue must match.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def to_names(cls, text: str) -> Self:
        """Return the queues of a list with commas; spaces around a name do not count.

        A name that has a comma itself can only be written as an assignment.

        Raises:
            SubscriptionError: There is no name in it.
        """
        names = {name.strip() for name in text.split(",")} - {""}
        if not names:
            raise SubscriptionError(f"{text!r} names no queue: write orders or orders,invoices")
        return cls(tuple(sorted(names)))

    @classmethod
    def to_pattern(cls, pattern: str) -> Self:
        """Return the queues whose whole names match a regular expression.

        Raises:
            SubscriptionError: It is none.
        """
        try:
            re.compile(pattern)
        except re.error as error:
            raise SubscriptionError(f"{pattern!r} is no regular expression: {error}") from error
        return cls(pattern=pattern)

    @classmethod
    def to_assignment(cls, text: str) -> Self:
        """Return the queues of a JSON object such as `{"orders": [0]}`.

        Raises:
            SubscriptionError: It is none, names nothing, or a partition that a queue has not.
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
    """Return the logs of a subscription, by name. Reads definitions, nothing else.

    Args:
        storage_path: The data directory, of a server or an embedding program.
        vhost: Virtual host of all of them.
        wanted: Which ones.
        store_options: How the store is reached that the data directory is in.

    Raises:
        StoreError: The store cannot be used.
        StorageNotFoundError: There is no data directory, or a definition is unreadable.
        QueueNotFoundError: A queue that was named does not exist; names the nearest.
        NoQueueMatchesError: None matches the pattern now.
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
