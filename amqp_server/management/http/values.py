"""Values of a body, as tools send them: booleans and numbers may be texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp_server.management.http.answers import bad_request


def boolean(body: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """Return a boolean of a body, which may be the text `true` or `false`.

    Raises:
        ApiError: It is something else.
    """
    value = body.get(key, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    if value is None:
        return default
    raise bad_request(["not_boolean", value])


def integer(body: Mapping[str, Any], key: str, default: int) -> int:
    """Return a whole number of a body, which may be a text of digits.

    Raises:
        ApiError: It is something else.
    """
    value = body.get(key, default)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise bad_request(["not_integer", value])


def text(body: Mapping[str, Any], key: str, default: str) -> str:
    """Return a text of a body.

    Raises:
        ApiError: It is something else.
    """
    value = body.get(key, default)
    if isinstance(value, str):
        return value
    raise bad_request(["not_a_string", value])


def table(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object of a body, such as arguments; an empty list or text is an empty object.

    Raises:
        ApiError: It is something else, or has a value null.
    """
    value = body.get(key)
    if value in (None, [], ""):
        return {}
    if not isinstance(value, dict):
        raise bad_request(["not_a_table", value])
    if any(each is None for each in value.values()):
        raise bad_request("null_not_allowed")
    return value


def require(body: Mapping[str, Any], *keys: str) -> None:
    """Refuse a body that lacks keys.

    Raises:
        ApiError: 400 with the list of what is missing, as Erlang writes it.
    """
    missing = [f"{{key_missing,{key}}}" for key in keys if key not in body]
    if missing:
        raise bad_request(f"[{','.join(missing)}]")
