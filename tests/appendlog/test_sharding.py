"""Which shard a key belongs to: RabbitMQ's, within its bounds, and fairly shared out to workers."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqp_server
from appendlog.sharding import SHARDS_MAX, pick_bucket, pick_shard, shards_of

# What OTP 25 makes of octets: `jump_consistent_hash(erlang:phash2(Octets), N)` for N = 2, 3, 16,
# 1000 and 1,000,000, with RabbitMQ's function of that name.
ERLANG = [
    ("", (0, 0, 9, 161, 792163)),
    ("41", (1, 1, 7, 355, 23890)),
    ("7c", (0, 0, 10, 667, 506157)),
    ("58b791", (0, 2, 5, 135, 342325)),
    ("9a78cdc29492a875", (0, 0, 5, 617, 926654)),
    ("d9892fed75598005c48a6a", (0, 2, 13, 48, 736549)),
    ("dcbed407e3e6b605b99e8306", (1, 1, 13, 941, 753571)),
    ("86d2c96e760e819b85c924c3c4", (1, 2, 10, 461, 173836)),
    ("6110e5781bcccea696762e6116c6e9c92d99bf35", (1, 1, 11, 300, 700113)),
    ("433d2e44fed8b6b8357e44cd3129903ac1d45597", (0, 0, 12, 483, 897879)),
]


@pytest.mark.parametrize(("octets", "buckets"), ERLANG)
def test_a_key_has_the_bucket_that_rabbitmq_gives_it(octets: str, buckets: tuple[int, ...]) -> None:
    counts = (2, 3, 16, 1000, 1_000_000)

    assert tuple(pick_bucket(bytes.fromhex(octets), count) for count in counts) == buckets


# The same for values that are no octets: `true`, `false`, `undefined` (None), floats, integers.
ERLANG_VALUES: list[tuple[float | None, tuple[int, ...]]] = [
    (True, (0, 0, 0, 393, 175696)),
    (False, (0, 0, 12, 709, 474533)),
    (None, (1, 1, 1, 491, 242831)),
    (1.5, (0, 0, 0, 366, 150821)),
    (-2.25, (1, 1, 9, 979, 390795)),
    (0.0, (0, 0, 0, 873, 980762)),
    (1.0e300, (1, 1, 13, 854, 158223)),
    (0, (0, 0, 15, 807, 892565)),
    (1, (0, 2, 3, 856, 532457)),
    (-1, (0, 2, 13, 220, 588834)),
    (17, (0, 2, 2, 650, 142962)),
    (-128, (0, 0, 10, 177, 215267)),
    (134217728, (0, 0, 15, 807, 892565)),
    (-1099511627776, (0, 0, 15, 807, 892565)),
    (9223372036854775807, (0, 2, 13, 220, 588834)),
    (1700000000000, (1, 1, 5, 255, 485024)),
]


@pytest.mark.parametrize(("value", "buckets"), ERLANG_VALUES)
def test_a_value_has_the_bucket_that_rabbitmq_gives_it(
    value: float | None, buckets: tuple[int, ...]
) -> None:
    counts = (2, 3, 16, 1000, 1_000_000)

    assert tuple(pick_bucket(value, count) for count in counts) == buckets


@given(key=st.text() | st.binary(max_size=2000), count=st.integers(1, SHARDS_MAX))
def test_every_key_has_a_shard(key: str | bytes, count: int) -> None:
    shard = pick_shard(key, count)

    assert 0 <= shard < count
    assert pick_shard(key, count) == shard


@given(key=st.binary(max_size=60), count=st.integers(1, SHARDS_MAX - 1))
def test_a_shard_more_takes_keys_and_moves_no_others(key: bytes, count: int) -> None:
    before, after = pick_shard(key, count), pick_shard(key, count + 1)

    assert after in (before, count)


def test_shards_have_equal_shares() -> None:
    counts = Counter(pick_shard(f"customer-{number}", 16) for number in range(32_000))

    # Six standard deviations of a fair draw.
    assert set(counts) == set(range(16))
    assert all(abs(count - 2000) < 260 for count in counts.values())


def test_text_counts_as_utf_8() -> None:
    assert pick_shard("käse", 1000) == pick_shard("käse".encode(), 1000)
    assert pick_shard("\udcff", 1000) == pick_shard(b"\xff", 1000), "as a key came on the wire"


def test_keys_longer_than_any_routing_key_have_a_shard_of_their_own() -> None:
    keys = [b"x" * 300 + bytes([at]) for at in range(200)]

    assert len({pick_shard(key, 1000) for key in keys}) > 150


@pytest.mark.parametrize("count", [0, -1, SHARDS_MAX + 1])
def test_a_count_out_of_its_range_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"count must be 1 to {SHARDS_MAX}, found {count}"):
        pick_shard("key", count)


@pytest.mark.parametrize("count", [1.0, "4", True, None])
def test_a_count_that_is_no_integer_is_refused(count: int) -> None:
    with pytest.raises(TypeError, match="count must be an integer, found"):
        pick_shard("key", count)


@pytest.mark.parametrize("key", [1, None, bytearray(b"key")])
def test_a_key_that_is_neither_text_nor_bytes_is_refused(key: str) -> None:
    found = f"key must be str or bytes, found {type(key).__name__}"

    with pytest.raises(TypeError, match=re.escape(found)):
        pick_shard(key, 4)


@given(total=st.integers(1, 200), count=st.integers(1, 300))
def test_every_shard_has_one_worker_and_workers_have_equal_shares(total: int, count: int) -> None:
    taken = [shards_of(worker, total, count) for worker in range(total)]

    assert sorted(shard for shards in taken for shard in shards) == list(range(count))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


@pytest.mark.parametrize(
    ("worker", "total", "count", "text"),
    [
        (4, 4, 16, "worker must be 0 to 3, found 4"),
        (-1, 4, 16, "worker must be 0 to 3, found -1"),
        (0, 0, 16, f"total must be 1 to {SHARDS_MAX}, found 0"),
        (0, 4, 0, f"count must be 1 to {SHARDS_MAX}, found 0"),
    ],
)
def test_workers_out_of_range_are_refused(worker: int, total: int, count: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        shards_of(worker, total, count)


def test_programs_of_users_import_it_from_the_package() -> None:
    assert amqp_server.pick_shard is pick_shard
    assert amqp_server.shards_of is shards_of
    with pytest.raises(AttributeError, match="has no attribute 'pick_shards'"):
        amqp_server.pick_shards  # noqa: B018


def test_importing_it_starts_no_server_and_no_event_loop() -> None:
    code = (
        "import sys; from amqp_server import pick_shard; pick_shard('key', 4);"
        "print(sorted({'asyncio', 'uvloop', 'amqp_server.server'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout == "[]\n"
