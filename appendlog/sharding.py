"""Which shard a key belongs to, and which shards a worker takes: pure functions.

A key belongs to the same shard for an `x-consistent-hash` exchange (whose bindings are made with
weight 1 in the order of the shards), for a program that asks `pick_shard`, and for RabbitMQ's
exchange of that type. So the way is RabbitMQ's: a 27-bit hash of the key seeds a generator of
random numbers, and the numbers make the jumps of a jump consistent hash. More shards at the end
take only their share from the others; a shard that leaves from the middle renumbers those behind.

Source: Lamping and Veach, "A fast, minimal memory, consistent hash algorithm", 2014; RabbitMQ,
`rabbit_exchange_type_consistent_hash:jump_consistent_hash`; Erlang/OTP, `erlang:phash2` for
binaries and floats (Jenkins' hash of 1996) and the algorithm `exs1024s` of `rand`.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import pack, unpack
from typing import Final

SHARDS_MAX: Final = 65_536
"""Most shards that a key can be spread over; most workers they can be shared out to."""

HASHED_BYTES_MAX: Final = 255
"""Longest key that is hashed as it is; a longer one, as no routing key is, by its digest."""

_MASK_21: Final = (1 << 21) - 1
_MASK_27: Final = (1 << 27) - 1
_MASK_32: Final = (1 << 32) - 1
_MASK_64: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B9
_FLOAT: Final = 12 * _GOLDEN & _MASK_32
_BINARY: Final = 13 * _GOLDEN & _MASK_32
_ATOMS: Final = {True: 506_293, False: 7_111_573, None: 45_914_356}
"""What `erlang:phash2` does for `true`, `false` and `undefined`."""
_SEEDS: Final = 16


def pick_shard(key: str | bytes, count: int) -> int:
    """Return the shard that a key belongs to.

    Args:
        key: Routing key, or the header or property that the exchange hashes; text counts as
            UTF-8. Of any length, also empty.
        count: How many shards there are, 1 to `SHARDS_MAX`.

    Returns:
        0 to `count - 1`; the same in every process and for ever.

    Raises:
        TypeError: The key is neither text nor bytes, or the count no integer.
        ValueError: The count is out of its range.
    """
    _check("count", count, 1, SHARDS_MAX)
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogateescape")
    elif not isinstance(key, bytes):
        raise TypeError(f"key must be str or bytes, found {type(key).__name__}")
    return pick_bucket(key, count)


def shards_of(worker: int, total: int, count: int) -> range:
    """Return the shards that one of several equal workers takes.

    Every shard has exactly one worker, and no worker has more than one shard more than another;
    with more workers than shards the last ones have none.

    Args:
        worker: Which worker it is, 0 to `total - 1`.
        total: How many workers there are, 1 to `SHARDS_MAX`.
        count: How many shards there are, 1 to `SHARDS_MAX`.

    Raises:
        TypeError: One of them is no integer.
        ValueError: One of them is out of its range.
    """
    _check("total", total, 1, SHARDS_MAX)
    _check("worker", worker, 0, total - 1)
    _check("count", count, 1, SHARDS_MAX)
    return range(worker, count, total)


def pick_bucket(key: bytes | float | None, buckets: int) -> int:
    """Return the bucket, 0 to `buckets - 1`, that a key belongs to.

    What `pick_shard` does once it has checked its arguments. O(log buckets).

    Args:
        key: Octets, or the value of a header: an integer, a float, true or false; None where a
            message has no such header.
        buckets: How many there are, at least 1; may be larger than any machine word, as the sum
            of an exchange's weights may be.
    """
    return 0 if buckets == 1 else _jump(_seed(key), buckets)


def _check(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int:
        raise TypeError(f"{name} must be an integer, found {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, found {value}")


def _seed(key: bytes | float | None) -> int:
    """Return the number that RabbitMQ seeds the jumps of a key with."""
    if isinstance(key, bytes):
        # The hash costs a microsecond for each dozen of octets, and a header may have 100,000.
        return _hash(key if len(key) <= HASHED_BYTES_MAX else blake2b(key).digest())
    if key is None or isinstance(key, bool):
        return _ATOMS[key]
    # RabbitMQ takes an integer for a hash already.
    return key if isinstance(key, int) else _hash_float(key)


def _hash_float(number: float) -> int:
    """Return what `erlang:phash2` does for a float: 27 bits."""
    # Of the two zeros Erlang hashes one.
    high, low = unpack(">II", pack(">d", number or 0.0))
    return _mix(_FLOAT + high & _MASK_32, _FLOAT + low & _MASK_32, 0)[2] & _MASK_27


def _hash(octets: bytes) -> int:
    """Return what `erlang:phash2` does for a binary: 27 bits."""
    length = len(octets)
    if not length:
        return _BINARY & _MASK_27
    whole = length // 12 * 12
    # The first octet of the last word is left to the length.
    rest = octets[whole : whole + 8].ljust(8, b"\0") + b"\0" + octets[whole + 8 :].ljust(3, b"\0")
    padded = octets[:whole] + rest
    a, b, c = _GOLDEN, _GOLDEN, _BINARY
    for at in range(0, whole + 12, 12):
        a += int.from_bytes(padded[at : at + 4], "little")
        b += int.from_bytes(padded[at + 4 : at + 8], "little")
        c += int.from_bytes(padded[at + 8 : at + 12], "little")
        if at == whole:
            c += length
        a, b, c = _mix(a, b, c & _MASK_32)
    return c & _MASK_27


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - b - c & _MASK_32) ^ c >> 13
    b = (b - c - a ^ a << 8) & _MASK_32
    c = (c - a - b & _MASK_32) ^ b >> 13
    a = (a - b - c & _MASK_32) ^ c >> 12
    b = (b - c - a ^ a << 16) & _MASK_32
    c = (c - a - b & _MASK_32) ^ b >> 5
    a = (a - b - c & _MASK_32) ^ c >> 3
    b = (b - c - a ^ a << 10) & _MASK_32
    c = (c - a - b & _MASK_32) ^ b >> 15
    return a, b, c


def _jump(hashed: int, buckets: int) -> int:
    """Return the last bucket below `buckets` that the jumps of a hash come to."""
    seeds = _seeds(hashed)
    seed, at, bucket = seeds[0], 0, 0
    while True:
        at = (at + 1) % _SEEDS
        other = seeds[at]
        other ^= other << 31 & _MASK_64
        other ^= other >> 11
        seed = seeds[at] = seed ^ seed >> 30 ^ other
        # 53 bits, so many as a float holds; nothing may be divided by none.
        drawn = (seed * 1181783497276652981 & _MASK_64) >> 11 or 1
        jumped = int((bucket + 1) / (drawn * 2.0**-53))
        if jumped >= buckets:
            return bucket
        bucket = jumped


def _seeds(hashed: int) -> list[int]:
    """Return the generator's state for a seed of three equal numbers, last number first."""
    seed = (hashed & _MASK_21) + 1
    state = (
        (seed * 2097131 & _MASK_21) << 43
        | (seed * 2097133 & _MASK_21) << 22
        | (seed * 2097143 & _MASK_21) << 1
        | 1
    )
    seeds = [0] * _SEEDS
    for at in reversed(range(_SEEDS)):
        state ^= state >> 12
        state ^= state << 25 & _MASK_64
        state ^= state >> 27
        seeds[at] = state * 2685821657736338717 & _MASK_64
    return seeds
