"""One stream of records over several logs: each key always goes to the same log."""

from __future__ import annotations

from typing import Final

from appendlog.embedded.records import Headers
from appendlog.sharding import SHARDS_MAX, pick_shard
from offsets.consuming.root import LogRoot


class ShardedLog:
    """Appends by key to the logs `<name>-0000`, `<name>-0001`, ... of a root. Thread-safe.

    `pick_shard` selects the shard of a key, like an `x-consistent-hash` exchange over as many
    queues. Records of one key keep their order; there is no order between shards.

    Args:
        root: Root of the logs.
        name: Common prefix of their names.
        count: Number of shards, 1 to 65,536. Later shards take over only their share of the keys.

    Attributes:
        names: Names of the logs, in the order of the shards.

    Raises:
        ValueError: The count is out of range.
        LogError: As for `LogRoot.log`, like its other errors.
    """

    def __init__(self, root: LogRoot, name: str, count: int) -> None:
        if not 1 <= count <= SHARDS_MAX:
            raise ValueError(f"count {count} is not in 1 to {SHARDS_MAX}")
        self.names: Final = [f"{name}-{number:04}" for number in range(count)]
        self._logs = [root.log(each) for each in self.names]

    def append(self, payload: bytes, key: bytes, headers: Headers | None = None) -> tuple[str, int]:
        """Append one record to its key's log; return that log's name and the offset.

        Raises:
            ValueError: As for `LogWriter.append`, like its other errors.
        """
        shard = pick_shard(key, len(self._logs))
        return self.names[shard], self._logs[shard].append(payload, key, headers)
