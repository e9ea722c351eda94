"""Verbs of policies and operator policies."""

from __future__ import annotations

import json

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import invalid, no_parameter, no_vhost
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Rows
from cli.rabbitmq_tools.values import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


def list_policies(call: Call) -> Rows:
    """List the policies of a virtual host."""
    call.banner(f'Listing policies for vhost "{call.vhost}" ...')
    return _list(call, "policies")


def list_operator_policies(call: Call) -> Rows:
    """List the operator's policies of a virtual host."""
    call.banner(f'Listing operator policy overrides for vhost "{call.vhost}" ...')
    return _list(call, "operator_policies")


def set_policy(call: Call) -> None:
    """Set a policy."""
    _set(call, "policies", "policy")


def set_operator_policy(call: Call) -> None:
    """Set an operator's policy."""
    _set(call, "operator_policies", "operator policy override")


def clear_policy(call: Call) -> None:
    """Remove a policy."""
    call.banner(f'Clearing policy "{call.arguments[0]}" on vhost "{call.vhost}" ...')
    clear_from(call, "policies", call.arguments[0])


def clear_operator_policy(call: Call) -> None:
    """Remove an operator's policy."""
    call.banner(f'Clearing operator policy "{call.arguments[0]}" on vhost "{call.vhost}" ...')
    clear_from(call, "operator_policies", call.arguments[0])


def json_argument(text: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value of an argument in JSON.

    Raises:
        ToolFailedError: It is no JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        text = "JSON decoding error. Reason: badarg"
        raise ToolFailedError(UNAVAILABLE, text) from error


def _list(call: Call, family: str) -> Rows:
    found = call.ask(f"{family}.list", vhost=call.known_vhost())
    rows = [
        [as_json(row[name]) if name == "definition" else row[name] for name in _COLUMNS]
        for row in found
    ]
    return Rows(_COLUMNS, rows)


def _set(call: Call, family: str, noun: str) -> None:
    name, pattern, definition = call.arguments
    priority = call.options.get("priority", "0")
    call.banner(
        f'Setting {noun} "{name}" for pattern "{pattern}" to "{definition}" with priority '
        f'"{priority}" for vhost "{call.vhost}" ...'
    )
    policy = {
        "pattern": pattern,
        "definition": json_argument(definition),
        "apply-to": call.options.get("apply-to", "all"),
        "priority": int(priority),
    }
    try:
        call.ask(f"{family}.put", vhost=call.vhost, name=name, policy=policy)
    except RefusedError as refused:
        if refused.kind == "not_found":
            raise no_vhost(call.vhost) from refused
        if refused.kind == "invalid_argument":
            raise invalid(refused.reason) from refused
        raise


def clear_from(call: Call, family: str, name: str) -> None:
    """Remove a policy of one family: `policies` or `operator_policies`."""
    vhost = call.known_vhost()
    try:
        call.ask(f"{family}.clear", vhost=vhost, name=name)
    except RefusedError as refused:
        raise no_parameter() if refused.kind == "not_found" else refused from refused
