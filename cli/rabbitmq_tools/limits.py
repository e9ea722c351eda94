"""Verbs of the limits of virtual hosts and users."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import invalid, no_parameter, no_such_user, no_vhost
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.policies import json_argument
from cli.rabbitmq_tools.values import as_json, erlang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_KNOWN = {"vhost": ("max-connections", "max-queues"), "user": ("max-channels", "max-connections")}


def list_vhost_limits(call: Call) -> Rows | Message:
    """Show the limits of a virtual host, or of all that have some."""
    if "global" in call.options:
        call.banner("Listing limits for all vhosts ...")
        return _all(call, "vhost")
    call.banner(f'Listing limits for vhost "{call.vhost}" ...')
    return _one(call, "vhost", call.known_vhost())


def set_vhost_limits(call: Call) -> None:
    """Set limits of a virtual host; those that are not given end."""
    definition = call.arguments[0]
    call.banner(f'Setting vhost limits to "{definition}" for vhost "{call.vhost}" ...')
    replace_vhost_limits(call, definition)


def replace_vhost_limits(call: Call, definition: str) -> None:
    """Replace the limits of a virtual host by some in JSON."""
    limits = _checked("vhost", definition, "limits")
    call.known_vhost()
    _set(call, "vhost", call.vhost, limits)


def clear_vhost_limits(call: Call) -> None:
    """End the limits of a virtual host."""
    call.banner(f'Clearing vhost "{call.vhost}" limits ...')
    try:
        call.known_vhost()
    except ToolFailedError as missing:
        raise no_parameter() from missing
    call.ask("limits.clear", kind="vhost", name=call.vhost, limits=[])


def list_user_limits(call: Call) -> Rows | Message:
    """Show the limits of a user, by default `guest`, or of all that have some."""
    name = call.options.get("user", "guest")
    if "global" in call.options:
        call.banner("Listing limits for all users ...")
        return _all(call, "user")
    call.banner(f'Listing limits for user "{name}" ...')
    if not call.ask("users.list", name=name):
        raise no_such_user(name)
    return _one(call, "user", name)


def set_user_limits(call: Call) -> None:
    """Set limits of a user; others stay."""
    name, definition = call.arguments
    call.banner(f'Setting user limits to "{definition}" for user "{name}" ...')
    _set(call, "user", name, _checked("user", definition, "user-limits"))


def clear_user_limits(call: Call) -> None:
    """End one limit of a user, or all."""
    name, limit = call.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    call.banner(f'Clearing {what} for user "{name}" ...')
    limits = [] if limit == "all" else [limit]
    try:
        call.ask("limits.clear", kind="user", name=name, limits=limits)
    except RefusedError as refused:
        raise no_such_user(name) if refused.kind == "not_found" else refused from refused


def _found(call: Call, kind: str) -> dict[str, str]:
    """Return the limits in JSON by the name of who has them."""
    found = call.ask("limits.list")[f"{kind}s"]
    return {
        each["name"]: as_json({name: each["limits"][name] for name in sorted(each["limits"])})
        for each in found
        if each["limits"]
    }


def _one(call: Call, kind: str, name: str) -> Rows | Message:
    limits = _found(call, kind).get(name)
    if limits is None and kind == "vhost":
        return Rows((kind, "limits"), [])
    return Message(limits) if limits else Message("{}", {"message": "{}"})


def _all(call: Call, kind: str) -> Rows:
    return Rows((kind, "limits"), list(_found(call, kind).items()))


def _checked(kind: str, definition: str, term: str) -> dict[str, Any]:
    limits = json_argument(definition)
    if not isinstance(limits, dict):
        limits = {}
    unknown = [
        f"{{{erlang(name)},{erlang(value)}}}"
        for name, value in limits.items()
        if name not in _KNOWN[kind]
    ]
    if unknown:
        fault = f"Unrecognised terms [{','.join(unknown)}] in {term}"
        raise invalid(fault) if kind == "vhost" else ToolFailedError(UNAVAILABLE, fault)
    return limits


def _set(call: Call, kind: str, name: str, limits: dict[str, Any]) -> None:
    try:
        # RabbitMQ replaces the limits of a virtual host, and adds to those of a user.
        is_whole = kind == "vhost"
        call.ask("limits.set", kind=kind, name=name, limits=limits, replace=is_whole)
    except RefusedError as refused:
        if refused.kind == "not_found":
            raise (no_vhost(name) if kind == "vhost" else no_such_user(name)) from refused
        if refused.kind == "invalid_argument":
            fault = invalid(refused.reason)
            raise (
                fault if kind == "vhost" else ToolFailedError(UNAVAILABLE, refused.reason)
            ) from refused
        raise
