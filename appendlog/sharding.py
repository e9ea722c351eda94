"""Sharding: the shard of a key, and the shards of a worker. Pure functions.

A key belongs to the same shard for an `x-consistent-hash` exchange (with bindings of weight 1, made
in the order of the shards), for a program that calls `pick_shard`, and for RabbitMQ's exchange of
that type. So this is RabbitMQ's algorithm: a 27-bit hash of the key seeds a random number
generator, whose numbers make the jumps of a jump consistent hash. New shards at the end take only
their share from the others; removing a shard from the middle renumbers all later shards.

Source: Lamping and Veach, "A fast, minimal memory, consistent hash algorithm", 2014; RabbitMQ,
`rabbit_exchange_type_consistent_hash:jump_consistent_hash`; Erlang/OTP, `erlang:phash2` for
binaries and floats (Jenkins' hash of 1996) and the algorithm `exs1024s` of `rand`.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import pack, unpack
from typing import Final

SHARDS_MAX: Final = 65_536
"""Maximum number of shards for a key, and of workers that share them."""

HASHED_BYTES_MAX: Final = 255
"""Longest key that is hashed directly; a longer one (no routing key is) is first digested."""

_MASK_21: Final = (1 << 21) - 1
_MASK_27: Final = (1 << 27) - 1
_MASK_32: Final = (1 << 32) - 1
_MASK_64: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B9
_FLOAT: Final = 12 * _GOLDEN & _MASK_32
_BINARY: Final = 13 * _GOLDEN & _MASK_32
_ATOMS: Final = {True: 506_293, False: 7_111_573, None: 45_914_356}
"""Values of `erlang:phash2` for `true`, `false` and `undefined`."""
_SEEDS: Final = 16


def pick_shard(key: str | bytes, count: int) -> int:
    """Return the shard that a key belongs to.

    Args:
        key: Routing key, or the header or property that the exchange hashes; text is encoded as
            UTF-8. Any length, also empty.
        count: Number of shards, 1 to `SHARDS_MAX`.

    Returns:
        Shard, 0 to `count - 1`; the same in every process and every version.

    Raises:
        TypeError: The key is neither text nor bytes, or the count is not an integer.
        ValueError: The count is out of range.
    """
    _check("count", count, 1, SHARDS_MAX)
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogateescape")
    elif not isinstance(key, bytes):
        raise TypeError(f"key must be str or bytes, found {type(key).__name__}")
    return pick_bucket(key, count)


def shards_of(worker: int, total: int, count: int) -> range:
    """Return the shards of one of several equal workers.

    Every shard has exactly one worker. The numbers of shards of two workers differ by at most one;
    with more workers than shards, the last workers have none.

    Args:
        worker: Number of the worker, 0 to `total - 1`.
        total: Number of workers, 1 to `SHARDS_MAX`.
        count: Number of shards, 1 to `SHARDS_MAX`.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: An argument is out of range.
    """
    _check("total", total, 1, SHARDS_MAX)
    _check("worker", worker, 0, total - 1)
    _check("count", count, 1, SHARDS_MAX)
    return range(worker, count, total)


def pick_bucket(key: bytes | float | None, buckets: int) -> int:
    """Return the bucket, 0 to `buckets - 1`, of a key. O(log buckets).

    For octets, this is `pick_shard` without the checks of its arguments.

    Args:
        key: Octets, or the value of a header: an integer, a float, true or false; None for a
            message without such a header.
        buckets: Number of buckets, at least 1; may be larger than any machine word, like the sum
            of an exchange's weights.
    """
    return 0 if buckets == 1 else _jump(_seed(key), buckets)


def _check(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int:
        raise TypeError(f"{name} must be an integer, found {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, found {value}")


def _seed(key: bytes | float | None) -> int:
    """Return the number with which RabbitMQ seeds the jumps of a key."""
    if isinstance(key, bytes):
        # The hash costs a microsecond for every dozen octets, and a header may have 100,000.
        return _hash(key if len(key) <= HASHED_BYTES_MAX else blake2b(key).digest())
    if key is None or isinstance(key, bool):
        return _ATOMS[key]
    # RabbitMQ uses an integer directly as the hash.
    return key if isinstance(key, int) else _hash_float(key)


def _hash_float(number: float) -> int:
    """Return the 27-bit `erlang:phash2` of a float."""
    # Erlang hashes -0.0 like 0.0.
    high, low = unpack(">II", pack(">d", number or 0.0))
    return _mix(_FLOAT + high & _MASK_32, _FLOAT + low & _MASK_32, 0)[2] & _MASK_27


def _hash(octets: bytes) -> int:
    """Return the 27-bit `erlang:phash2` of a binary."""
    length = len(octets)
    if not length:
        return _BINARY & _MASK_27
    whole = length // 12 * 12
    # The first octet of the last word holds the length.
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
    """Return the last bucket below `buckets` that the jumps of a hash reach."""
    seeds = _seeds(hashed)
    seed = seeds[0]
    at = 0
    bucket = 0
    while True:
        at = (at + 1) % _SEEDS
        other = seeds[at]
        other ^= other << 31 & _MASK_64
        other ^= other >> 11
        seed = seeds[at] = seed ^ seed >> 30 ^ other
        # A float holds 53 bits; the division below needs a number other than 0.
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
