"""Real keys and tokens, and a key server that publishes them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

RESOURCE = "rabbitmq"
EVERYTHING = ["rabbitmq.read:*/*", "rabbitmq.write:*/*", "rabbitmq.configure:*/*"]


class Issuer:
    """Issues tokens with a key of its own.

    Args:
        name: Name of the key.
        bits: Size of an RSA key; 0: a key of the curve P-256.

    Attributes:
        name: As given.
    """

    def __init__(self, name: str = "k1", bits: int = 2048) -> None:
        self.name = name
        self._key: Any
        if bits:
            self._key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
            self.algorithm = "RS256"
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self.algorithm = "ES256"

    @property
    def public_pem(self) -> bytes:
        """The public key in PEM format."""
        made: bytes = self._key.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return made

    def write_key(self, directory: Path) -> str:
        """Write the public key to a file; return it as the setting for signing keys."""
        path = directory / f"{self.name}.pem"
        path.write_bytes(self.public_pem)
        return f"{self.name}={path}"

    @property
    def row(self) -> dict[str, Any]:
        """The public key as a row of a key set."""
        kind = RSAAlgorithm if self.algorithm == "RS256" else ECAlgorithm
        row: dict[str, Any] = json.loads(kind.to_jwk(self._key.public_key()))
        return {**row, "kid": self.name, "use": "sig", "alg": self.algorithm}

    def token(
        self,
        *,
        kid: str | None = "",
        seconds: float = 3600,
        headers: dict[str, Any] | None = None,
        **claims: Any,  # noqa: ANN401
    ) -> str:
        """Return a token.

        Args:
            kid: Name of its key in the header; None: none; empty: that of the issuer.
            seconds: Time until it expires.
            headers: More headers.
            claims: Claims beside those that every token has, or instead of them; None: left out.
        """
        made = {
            "sub": "alice",
            "aud": RESOURCE,
            "exp": time.time() + seconds,
            "scope": EVERYTHING,
            **claims,
        }
        body = {name: value for name, value in made.items() if value is not None}
        named = {} if kid is None else {"kid": kid or self.name}
        return jwt.encode(body, self._key, self.algorithm, {**named, **(headers or {})})


def key_set(*issuers: Issuer) -> str:
    """Return the key set of some issuers."""
    return json.dumps({"keys": [each.row for each in issuers]})
