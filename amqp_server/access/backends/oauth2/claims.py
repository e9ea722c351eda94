"""Reads the user of a verified token from its claims: name, tags and scopes.

Source: rabbitmq_auth_backend_oauth2, `rabbit_auth_backend_oauth2` and `uaa_jwt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCOPES_MAX: Final = 2048
"""Scopes of one token, as in RabbitMQ."""
DEFAULT_NAME_CLAIMS: Final = ("sub", "client_id")
"""Claims with the name of the user, after those that are set."""
UNKNOWN: Final = "unknown"
"""Name of a user whose token has none, as in RabbitMQ."""
_TAG: Final = "tag:"
_REQUESTING_PARTY: Final = "authorization.permissions.scopes"
"""Where a requesting party token (UMA, Keycloak) has its scopes."""
_DEPTH_MAX: Final = 16


class TooManyScopesError(Exception):
    """A token has more scopes than allowed."""


def user_name(claims: Mapping[str, Any], preferred: Sequence[str]) -> str:
    """Return the name of the user.

    Args:
        claims: Claims of the token.
        preferred: Names of claims in which to look first.
    """
    for claim in (*preferred, *DEFAULT_NAME_CLAIMS):
        found = claims.get(claim)
        if isinstance(found, str) and found:
            return found
    return UNKNOWN


def scopes_of(
    claims: Mapping[str, Any],
    *,
    resource: str,
    prefix: str,
    more_keys: Sequence[str],
    aliases: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return the scopes of a token that are for this server, without their prefix, each once.

    Args:
        claims: Claims of the token.
        resource: Name of this server among those that the token is for.
        prefix: Text with which the scopes for this server begin.
        more_keys: Paths of other claims with scopes, `a.b.c`.
        aliases: Scopes that other scopes stand for.

    Raises:
        TooManyScopesError: There are more than `SCOPES_MAX`.
    """
    found: dict[str, None] = {}
    for scope in _all_scopes(claims, resource, more_keys):
        for each in (scope, *aliases.get(scope, ())):
            if each.startswith(prefix):
                found[each[len(prefix) :]] = None
        if len(found) > SCOPES_MAX:
            raise TooManyScopesError(f"the token has more than {SCOPES_MAX} scopes")
    return tuple(found)


def tags_in(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return the tags that scopes without their prefix give: `tag:administrator`."""
    return tuple(scope[len(_TAG) :] for scope in scopes if scope.startswith(_TAG))


def _all_scopes(
    claims: Mapping[str, Any], resource: str, more_keys: Sequence[str]
) -> Iterator[str]:
    yield from _words(claims.get("scope"), resource)
    for path in (*more_keys, _REQUESTING_PARTY):
        for value in _values_at(claims, path.split("."), 0):
            yield from _words(value, resource)


def _values_at(value: object, path: Sequence[str], depth: int) -> Iterator[object]:
    """Yield what is at a path; a list on the way stands for each of its items."""
    if isinstance(value, list) and path and depth < _DEPTH_MAX:
        for each in value:
            yield from _values_at(each, path, depth + 1)
    elif not path:
        yield value
    elif isinstance(value, dict):
        yield from _values_at(value.get(path[0]), path[1:], depth)


def _words(value: object, resource: str) -> Iterator[str]:
    """Yield the scopes of a claim: a text, a list, or those of each resource without prefix."""
    match value:
        case str():
            yield from value.split()
        case list():
            yield from (each for each in value if isinstance(each, str))
        case dict() if resource in value and not isinstance(value[resource], dict):
            yield from (f"{resource}.{each}" for each in _words(value[resource], resource))
