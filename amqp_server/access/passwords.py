"""Password hashes: those that RabbitMQ writes, and a slow one of our own.

A hash of RabbitMQ is base64(salt + H(salt + password)) with a salt of four octets. It is quick to
compute, so an attacker who steals it can try many passwords. Ours is scrypt, with its parameters in
the text: `16384:8:1:<base64 of the salt>:<base64 of the key>` (n, r, p).

Source: RFC 7914 (scrypt); RabbitMQ, `rabbit_password`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

SCRYPT: Final = "amqp_server_password_hashing_scrypt"
"""Name of our own algorithm, in the form of RabbitMQ's names."""
SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"

_DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
ALGORITHMS: Final = (SCRYPT, *_DIGESTS)

_SALT_BYTES: Final = 4
_N, _R, _P = 16_384, 8, 1
"""Cost of a new hash: about 50 ms of one core, and 16 MiB while it is computed."""
_SLOW_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_N_MAX, _R_MAX, _P_MAX = 131_072, 16, 4
"""Highest cost that is accepted from elsewhere: a check takes 256 MiB and two seconds then."""


class InvalidHashError(ValueError):
    """The text is no hash of its algorithm."""


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """Hash of a password, as it is stored.

    Attributes:
        algorithm: One of `ALGORITHMS`.
        text: The hash in the form of its algorithm; empty: no password logs in.
    """

    algorithm: str
    text: str

    @classmethod
    def of(cls, password: bytes) -> PasswordHash:
        """Return a new slow hash of a password; takes about 50 ms: call it in a worker."""
        salt = os.urandom(_SLOW_SALT_BYTES)
        key = _scrypt(password, salt, _N, _R, _P, _KEY_BYTES)
        return cls(SCRYPT, f"{_N}:{_R}:{_P}:{_base64(salt)}:{_base64(key)}")

    @classmethod
    def quick(cls, password: bytes, algorithm: str = SHA256) -> PasswordHash:
        """Return a new hash of a password in a form that RabbitMQ reads."""
        salt = os.urandom(_SALT_BYTES)
        return cls(algorithm, _base64(salt + _digest(algorithm, salt + password)))

    @property
    def is_slow(self) -> bool:
        """Whether `matches` takes long: call it in a worker then."""
        return self.algorithm == SCRYPT and bool(self.text)

    def matches(self, password: bytes) -> bool:
        """Return whether a password has this hash; a blank one never does."""
        if not self.text or not password:
            return False
        if self.algorithm == SCRYPT:
            n, r, p, salt, key = _parameters(self.text)
            return compare_digest(_scrypt(password, salt, n, r, p, len(key)), key)
        octets = _octets(self.text)
        salt, digest = octets[:_SALT_BYTES], octets[_SALT_BYTES:]
        return compare_digest(_digest(self.algorithm, salt + password), digest)

    def check(self) -> None:
        """Check the text.

        Raises:
            InvalidHashError: The algorithm is unknown, or the text is no hash of it.
        """
        if self.algorithm not in ALGORITHMS:
            raise InvalidHashError(f"unknown hashing algorithm '{self.algorithm}'")
        if not self.text:
            return
        if self.algorithm == SCRYPT:
            _parameters(self.text)
            return
        size = (
            _SALT_BYTES + hashlib.new(_DIGESTS[self.algorithm], usedforsecurity=False).digest_size
        )
        if len(_octets(self.text)) != size:
            raise InvalidHashError(
                f"the hash has {len(_octets(self.text))} octets, one of {self.algorithm} has {size}"
            )


NO_PASSWORD: Final = PasswordHash(SHA256, "")
"""Hash of a user who logs in without a password only, with a certificate for example."""


def _digest(algorithm: str, octets: bytes) -> bytes:
    return hashlib.new(_DIGESTS[algorithm], octets, usedforsecurity=False).digest()


def _scrypt(password: bytes, salt: bytes, n: int, r: int, p: int, key_bytes: int) -> bytes:
    # 128 * n * r octets for the table, the same for the lanes, and some.
    memory_max = 128 * r * (n + p + 2) + 1024 * 1024
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=memory_max, dklen=key_bytes)


def _parameters(text: str) -> tuple[int, int, int, bytes, bytes]:
    """Return n, r, p, salt and key of one of our hashes.

    Raises:
        InvalidHashError: The text has another form, or costs too much.
    """
    parts = text.split(":")
    if len(parts) != 5 or not all(part.isascii() and part.isdecimal() for part in parts[:3]):
        raise InvalidHashError("the hash must have the form n:r:p:salt:key")
    n, r, p = (int(part[:9]) for part in parts[:3])
    is_power_of_two = n > 1 and not n & (n - 1)
    if not is_power_of_two or n > _N_MAX or not 0 < r <= _R_MAX or not 0 < p <= _P_MAX:
        raise InvalidHashError(
            f"the cost n={n} r={r} p={p} is not allowed: n is a power of two up to {_N_MAX}, "
            f"r at most {_R_MAX}, p at most {_P_MAX}"
        )
    if n.bit_length() - 1 >= 16 * r:
        # RFC 7914, section 2: OpenSSL refuses it too, but only when a password is checked.
        raise InvalidHashError(f"the cost n={n} r={r} is not allowed: n must be less than 2^(16 r)")
    salt, key = _octets(parts[3]), _octets(parts[4])
    if not 16 <= len(key) <= 64:
        raise InvalidHashError(f"the key has {len(key)} octets, 16 to 64 are allowed")
    return n, r, p, salt, key


def _octets(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise InvalidHashError("the hash is not base64") from cause


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
