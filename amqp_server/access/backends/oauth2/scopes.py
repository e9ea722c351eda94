"""Scopes of a token: what they allow, by the rules of RabbitMQ.

`read:<vhost>/<name>` allows to read; `write` and `configure` likewise. A third part is for routing
keys of topic exchanges: `write:<vhost>/<name>/<key>`. In each part `*` stands for any text, and
`%2F` for a slash.

Source: rabbitmq_auth_backend_oauth2, `rabbit_oauth2_scope` and `wildcard`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from amqp_server.access.permissions import Right

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RIGHTS: Final = {right.value: right for right in Right}
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


class Wildcard:
    """A text in which each `*` stands for any text; matched in linear time.

    Args:
        pattern: The text; its other parts are percent-encoded.
    """

    def __init__(self, pattern: str) -> None:
        self._parts = [unquote_plus(part) for part in pattern.split("*")]
        self.matches_all = len(self._parts) > 1 and not any(self._parts)

    def matches(self, text: str) -> bool:
        """Return whether the whole of a text is meant."""
        first, *others = self._parts
        if not others:
            return text == first
        last = others.pop()
        if not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in others:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return at <= end


@lru_cache(4096)
def wildcard(pattern: str) -> Wildcard:
    """Return the wildcard of a text, which is remembered."""
    return Wildcard(pattern)


class Permission(NamedTuple):
    """Right that one scope gives.

    Attributes:
        right: The right.
        vhost: Virtual hosts.
        name: Queues and exchanges.
        key: Routing keys; None: it is not for routing keys.
    """

    right: Right
    vhost: Wildcard
    name: Wildcard
    key: Wildcard | None


def permission_of(scope: str) -> Permission | None:
    """Return what a scope without its prefix allows; None if it is no permission."""
    name, colon, rest = scope.partition(":")
    right = _RIGHTS.get(name)
    parts = rest.split("/")
    if right is None or not colon or not 2 <= len(parts) <= 3:
        return None
    key = wildcard(parts[2]) if len(parts) == 3 else None
    return Permission(right, wildcard(parts[0]), wildcard(parts[1]), key)


@dataclass(frozen=True, slots=True)
class TokenScopes:
    """The scopes of one token.

    Attributes:
        scopes: Scopes without their prefix.
        claims: Texts of the token that may stand in a scope as `{name}`, beside `{vhost}`.
    """

    scopes: tuple[str, ...]
    claims: tuple[tuple[str, str], ...] = ()
    _fixed: tuple[Permission, ...] = field(init=False, compare=False, repr=False)
    _open: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        fixed = (permission_of(scope) for scope in self.scopes if "{" not in scope)
        object.__setattr__(self, "_fixed", tuple(each for each in fixed if each is not None))
        object.__setattr__(self, "_open", tuple(scope for scope in self.scopes if "{" in scope))

    def permissions_in(self, vhost: str) -> Iterator[Permission]:
        """Yield what the scopes allow in a virtual host."""
        for permission in self._fixed:
            if permission.vhost.matches(vhost):
                yield permission
        if self._open:
            values = {**dict(self.claims), "vhost": vhost}
            for scope in self._open:
                found = permission_of(_with_claims(scope, values))
                if found is not None and found.vhost.matches(vhost):
                    yield found


def _with_claims(scope: str, values: Mapping[str, str]) -> str:
    """Replace `{vhost}` and `{claim}`; an unknown name stands for itself."""

    def value_of(found: re.Match[str]) -> str:
        # It must stay one part, and means itself: no wildcard, no slash.
        value = values.get(found[1])
        return found[1] if value is None else _quoted(value)

    return _VARIABLE.sub(value_of, scope)


def _quoted(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in "%+/*" else each for each in text)
