from pathlib import Path

import pytest

from appendlog.sharding import pick_shard
from offsets import LogRoot, ShardedLog
from tests.embedded.consumers import consumer
from tests.embedded.logs import BY_HAND


def test_each_key_has_one_log_and_keeps_its_order(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root:
        sharded = ShardedLog(root, "events", 4)
        assert sharded.names == ["events-0000", "events-0001", "events-0002", "events-0003"]
        places = {b"%d" % n: sharded.append(b"%d" % n, b"key-%d" % (n % 20)) for n in range(200)}
        root.sync()
        seen: dict[bytes, list[int]] = {}
        with consumer(root, pattern="events-*") as reader:
            while (batch := reader.poll()) is not None:
                assert batch.log in sharded.names
                for record in batch:
                    assert places[record.payload] == (batch.log, record.offset)
                    assert batch.log == sharded.names[pick_shard(record.key, 4)]
                    seen.setdefault(record.key, []).append(int(record.payload))
    assert len(seen) == 20
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert len({log for log, _ in places.values()}) == 4


@pytest.mark.parametrize("count", [0, 65_537])
def test_a_number_of_shards_out_of_its_range_is_refused(tmp_path: Path, count: int) -> None:
    with LogRoot.open(tmp_path, BY_HAND) as root, pytest.raises(ValueError, match="count"):
        ShardedLog(root, "events", count)
