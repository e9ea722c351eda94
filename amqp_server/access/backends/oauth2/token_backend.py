"""A back end for tokens: a JWT in place of the password, whose scopes are the permissions.

The name in the login does not count, as in RabbitMQ: the token says who the user is.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import jwt

from amqp_server.access.backends.backend import Identity, Refusal
from amqp_server.access.backends.fetching import Fetcher
from amqp_server.access.backends.oauth2.claims import (
    TooManyScopesError,
    scopes_of,
    tags_in,
    user_name,
)
from amqp_server.access.backends.oauth2.key_ring import KeyRing
from amqp_server.access.backends.oauth2.keys import BadKeyError, key_from_file
from amqp_server.access.backends.oauth2.scopes import TokenScopes
from amqp_server.access.backends.oauth2.token_grants import TokenGrants
from amqp_server.access.user import NAME_BYTES_MAX, TAGS_MAX
from amqp_server.base.config import AUTH_OAUTH2_ALGORITHMS, named_words, words
from amqp_server.base.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.config import ServerConfig

TOKEN_BYTES_MAX: Final = 16 * 1024
"""Longest token."""
LEEWAY_SECONDS: Final = 10
"""Seconds by which the clock of a token's issuer may be ahead of ours."""
_CLAIM_CHARACTERS_MAX: Final = 255
"""Longest claim that may stand in a scope as `{name}`."""


class TokenBackend:
    """Checks tokens and reads their scopes; see `Deciding`.

    Args:
        config: Settings: keys, audience, scopes.
        wall_clock: Returns Unix time in seconds.

    Raises:
        StartupError: A key or the file of authorities cannot be used.
    """

    def __init__(self, config: ServerConfig, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._resource = config.auth_oauth2_resource_server_id
        self._prefix = config.auth_oauth2_scope_prefix or f"{self._resource}."
        self._issuer = config.auth_oauth2_issuer
        self._verifies_audience = config.auth_oauth2_verify_aud
        self._name_claims = words(config.auth_oauth2_preferred_username_claims)
        self._more_keys = config.auth_oauth2_additional_scopes_key.split()
        self._default_key = config.auth_oauth2_default_key
        self._aliases = {
            alias: scopes.split()
            for alias, scopes in named_words(config.auth_oauth2_scope_aliases).items()
        }
        self._algorithms = words(config.auth_oauth2_algorithms) or list(AUTH_OAUTH2_ALGORITHMS)
        files = {}
        for name, path in named_words(config.auth_oauth2_signing_keys).items():
            try:
                files[name] = key_from_file(Path(path))
            except BadKeyError as error:
                raise StartupError(f"signing key '{name}' ({path}): {error}") from error
        fetcher = None
        if config.auth_oauth2_jwks_uri or (self._issuer and not files):
            try:
                fetcher = Fetcher(config.auth_oauth2_ca)
            except OSError as error:
                raise StartupError(f"auth-oauth2-ca {config.auth_oauth2_ca}: {error}") from error
        self._keys = KeyRing(
            files,
            fetcher,
            config.auth_oauth2_jwks_uri,
            self._issuer,
            # Less than a login may take, so that the reason is this one.
            config.auth_timeout_seconds * 0.9,
        )

    async def start(self) -> None:
        """Begin to fetch keys in the background; the event loop runs."""
        await self._keys.start()

    async def close(self) -> None:
        """End what is under way."""
        await self._keys.close()

    async def authenticate(
        self,
        user: str,
        password: str | None,
        peer: str,
    ) -> Identity | Refusal:
        """Check a token."""
        if password is None:
            return Refusal("a certificate is no token")
        if len(password) > TOKEN_BYTES_MAX:
            return Refusal(f"the token has more than {TOKEN_BYTES_MAX} bytes")
        try:
            header = jwt.get_unverified_header(password)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return Refusal("the password is no token (JWT)")
        name, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in self._algorithms:
            return Refusal(f"the algorithm {str(algorithm)!r:.40} is not accepted")
        if name is not None and not isinstance(name, str):
            return Refusal("the name of the token's key (kid) is no text")
        key = await self._keys.find(name, self._default_key)
        if key is None:
            return Refusal(f"the token is signed with an unknown key {name!r:.80}")
        if algorithm not in key.algorithms:
            return Refusal(f"the algorithm {algorithm} does not fit the key {name!r:.80}")
        try:
            claims = self._verified(password, key.key, algorithm)
        except jwt.PyJWTError as error:
            return Refusal(_reason(error))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            return Refusal("the token has invalid claims")
        return self._identity(claims)

    def _verified(self, token: str, key: object, algorithm: str) -> dict[str, Any]:
        claims = jwt.decode(
            token,
            cast("Any", key),
            algorithms=[algorithm],
            audience=self._resource if self._verifies_audience else None,
            leeway=LEEWAY_SECONDS,
            options={
                "require": ["exp"],
                "verify_aud": self._verifies_audience,
                # A clock that is ahead is no reason; `nbf` says when a token begins to count.
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
        if self._issuer and not _is_same_issuer(claims.get("iss"), self._issuer):
            raise jwt.InvalidIssuerError
        return claims

    def _identity(self, claims: dict[str, Any]) -> Identity | Refusal:
        expires = claims["exp"]
        if type(expires) not in (int, float) or not 0 <= expires < 2**53:
            return Refusal("the token's exp is no time")
        if expires <= self._wall_clock():
            return Refusal("the token has expired")
        name = user_name(claims, self._name_claims)
        if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
            return Refusal(f"the name of the user has more than {NAME_BYTES_MAX} bytes")
        try:
            scopes = scopes_of(
                claims,
                resource=self._resource,
                prefix=self._prefix,
                more_keys=self._more_keys,
                aliases=self._aliases,
            )
        except TooManyScopesError as error:
            return Refusal(str(error))
        texts = tuple(
            sorted(
                (claim, value)
                for claim, value in claims.items()
                if isinstance(value, str) and len(value) <= _CLAIM_CHARACTERS_MAX
            )
        )
        return Identity(name, tags_in(scopes)[:TAGS_MAX], expires, TokenScopes(scopes, texts))

    # Permissions

    def grants(self, identity: Identity, vhost: str) -> TokenGrants:
        """Return what a user may do in a virtual host."""
        return TokenGrants(tuple(_scopes(identity).permissions_in(vhost)), identity.tags)

    def may_access(self, identity: Identity, vhost: str) -> bool:
        """Return whether a scope allows anything in a virtual host."""
        return any(True for _ in _scopes(identity).permissions_in(vhost))


def _scopes(identity: Identity) -> TokenScopes:
    assert isinstance(identity.data, TokenScopes), "made by this back end"
    return identity.data


def _is_same_issuer(found: object, wanted: str) -> bool:
    return isinstance(found, str) and found.rstrip("/") == wanted.rstrip("/")


def _reason(error: jwt.PyJWTError) -> str:
    """Return why a token is refused; the library's text may quote the token's claims."""
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet"
        case jwt.InvalidAudienceError():
            return "the token is for another audience (aud)"
        case jwt.InvalidIssuerError():
            return "the token is of another issuer (iss)"
        case jwt.MissingRequiredClaimError():
            return f"the token has no {error.claim}"
        case jwt.InvalidSignatureError():
            return "the signature of the token is wrong"
    return f"the token is invalid: {type(error).__name__}"
