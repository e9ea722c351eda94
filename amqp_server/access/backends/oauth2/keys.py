"""Public keys that sign tokens: from files, and from the key set (JWKS) of a key server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt
import orjson
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

if TYPE_CHECKING:
    from pathlib import Path

KEYS_MAX: Final = 100
"""Keys of one key set that are used."""
KEY_ID_CHARACTERS_MAX: Final = 256
"""Longest name of a key."""
RSA_BITS: Final = range(2048, 8193)
"""Sizes of RSA keys that are accepted: smaller ones are weak, larger ones take long to check."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}


class BadKeyError(Exception):
    """It is no key that signs tokens."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key.

    Attributes:
        key: The key, as the library `cryptography` has it.
        algorithms: Algorithms that fit it.
    """

    key: Any
    algorithms: tuple[str, ...]


def key_from_file(path: Path) -> SigningKey:
    """Return the public key of a PEM file: a key, or a certificate.

    Raises:
        BadKeyError: The file cannot be read, or has no public key that signs tokens.
    """
    try:
        octets = path.read_bytes()
    except OSError as error:
        raise BadKeyError(error.strerror or str(error)) from error
    if b"PRIVATE KEY" in octets:
        raise BadKeyError("it has a private key: the server needs the public one only")
    try:
        if b"BEGIN CERTIFICATE" in octets:
            return _signing(x509.load_pem_x509_certificate(octets).public_key())
        return _signing(load_pem_public_key(octets))
    except ValueError:
        raise BadKeyError("it has no public key in PEM format") from None
    except UnsupportedAlgorithm as error:
        raise BadKeyError(f"it has a key of another kind: {error}") from None


def keys_from_set(octets: bytes) -> dict[str, SigningKey]:
    """Return the keys of a key set by their names; those that sign no tokens are left out.

    Takes up to 50 ms: call it in a worker.

    Args:
        octets: JSON, as RFC 7517 has it.

    Raises:
        BadKeyError: It is no key set, or has no key that signs tokens.
    """
    try:
        # Ten times as fast as `json`, which blocks the event loop too: all threads wait for it.
        found = orjson.loads(octets)
    except orjson.JSONDecodeError:
        raise BadKeyError("the answer is not JSON") from None
    rows = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise BadKeyError('the answer has no list "keys"')
    keys = {}
    for row in rows[:KEYS_MAX]:
        name = row.get("kid", "") if isinstance(row, dict) else None
        if not isinstance(name, str) or len(name) > KEY_ID_CHARACTERS_MAX:
            continue
        try:
            keys[name] = _key_of_row(row)
        except BadKeyError:
            # One for encryption, of another kind, or broken: others may be good.
            continue
    if not keys:
        raise BadKeyError("the answer has no key that signs tokens")
    return keys


def _key_of_row(row: dict[str, Any]) -> SigningKey:
    # Only these kinds: an `oct` would be a secret that every client can read.
    if row.get("kty") not in ("RSA", "EC", "OKP") or row.get("use", "sig") != "sig":
        raise BadKeyError("it does not sign tokens")
    public = {name: value for name, value in row.items() if name not in ("d", "alg", "x5c")}
    try:
        found = _signing(jwt.PyJWK(public, algorithm=_default_algorithm(row)).key)
    except (
        jwt.PyJWTError,
        ValueError,
        TypeError,
        KeyError,
        ArithmeticError,
        UnsupportedAlgorithm,
    ) as error:
        raise BadKeyError(f"it is broken: {error}") from None
    wanted = row.get("alg")
    if wanted is None:
        return found
    if wanted not in found.algorithms:
        raise BadKeyError(f"its algorithm is {wanted!r:.40}")
    return SigningKey(found.key, (wanted,))


def _default_algorithm(row: dict[str, Any]) -> str:
    """Return an algorithm with which the library can read a key of this kind."""
    match row.get("kty"):
        case "RSA":
            return "RS256"
        case "EC":
            return {"P-384": "ES384", "P-521": "ES512"}.get(str(row.get("crv")), "ES256")
    return "EdDSA"


def _signing(key: object) -> SigningKey:
    match key:
        case rsa.RSAPublicKey():
            if key.key_size not in RSA_BITS:
                raise BadKeyError(
                    f"an RSA key of {key.key_size} bits is not accepted: "
                    f"{RSA_BITS[0]} to {RSA_BITS[-1]}"
                )
            return SigningKey(key, _RSA)
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return SigningKey(key, _CURVES[key.curve.name])
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return SigningKey(key, ("EdDSA",))
    raise BadKeyError("a key of this kind signs no tokens")
