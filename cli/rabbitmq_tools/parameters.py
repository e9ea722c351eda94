"""Verbs of parameters: of virtual hosts, and of the whole server."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import invalid, no_parameter, no_vhost
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.limits import replace_vhost_limits
from cli.rabbitmq_tools.output import Rows
from cli.rabbitmq_tools.policies import clear_from, json_argument
from cli.rabbitmq_tools.values import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_POLICY = "policy"
_OPERATOR_POLICY = "operator_policy"
_LIMITS = "vhost-limits"
_SHOWN_ELSEWHERE = (_POLICY, _OPERATOR_POLICY, _LIMITS)


def list_parameters(call: Call) -> Rows:
    """List the parameters of a virtual host, but not those that have verbs of their own."""
    call.banner(f'Listing runtime parameters for vhost "{call.vhost}" ...')
    try:
        found = call.ask("parameters.list", vhost=call.vhost)
    except RefusedError as refused:
        raise no_vhost(call.vhost) if refused.kind == "not_found" else refused from refused
    rows = [
        (row["component"], row["name"], as_json(row["value"]))
        for row in found
        if row["component"] not in _SHOWN_ELSEWHERE
    ]
    return Rows(("component", "name", "value"), rows)


def list_global_parameters(call: Call) -> Rows:
    """List the parameters of the whole server."""
    call.banner("Listing global runtime parameters ...")
    found = call.ask("global_parameters.list")
    return Rows(("name", "value"), [(row["name"], as_json(row["value"])) for row in found])


def set_parameter(call: Call) -> None:
    """Set a parameter of a virtual host."""
    component, name, value = call.arguments
    call.banner(
        f'Setting runtime parameter "{name}" for component "{component}" to "{value}" in vhost '
        f'"{call.vhost}" ...'
    )
    if component == _POLICY:
        raise ToolFailedError(UNAVAILABLE, "policies may not be set using this method")
    if component == _LIMITS:
        if name != "limits":
            raise invalid("the limits of a virtual host have the name limits")
        replace_vhost_limits(call, value)
        return
    parsed = json_argument(value)
    place = {"vhost": call.vhost, "name": name}
    try:
        if component == _OPERATOR_POLICY:
            if not isinstance(parsed, dict):
                raise invalid("the value must be an object")
            call.ask("operator_policies.put", **place, policy=parsed)
        else:
            call.ask("parameters.set", **place, component=component, value={"value": parsed})
    except RefusedError as refused:
        if refused.kind == "not_found":
            raise no_vhost(call.vhost) from refused
        if refused.kind == "invalid_argument":
            raise invalid(refused.reason) from refused
        raise


def clear_parameter(call: Call) -> None:
    """Remove a parameter of a virtual host."""
    component, name = call.arguments
    call.banner(
        f'Clearing runtime parameter "{name}" for component "{component}" on vhost '
        f'"{call.vhost}" ...'
    )
    if component == _POLICY:
        raise ToolFailedError(UNAVAILABLE, "policies may not be cleared using this method")
    vhost = call.known_vhost()
    if component == _OPERATOR_POLICY:
        clear_from(call, "operator_policies", name)
    elif component == _LIMITS and name == "limits":
        if not call.ask("limits.clear", kind="vhost", name=vhost, limits=[])["before"]:
            raise no_parameter()
    elif not call.ask("parameters.clear", vhost=vhost, component=component, name=name):
        raise no_parameter()


def set_global_parameter(call: Call) -> None:
    """Set a parameter of the whole server."""
    name, value = call.arguments
    call.banner(f'Setting global runtime parameter "{name}" to "{value}" ...')
    call.ask("global_parameters.set", name=name, value={"value": json_argument(value)})


def clear_global_parameter(call: Call) -> None:
    """Remove a parameter of the whole server."""
    name = call.arguments[0]
    call.banner(f'Clearing global runtime parameter "{name}" ...')
    if not call.ask("global_parameters.clear", name=name):
        raise no_parameter()


def set_cluster_name(call: Call) -> None:
    """Name the cluster, which is this server."""
    name = call.arguments[0]
    call.banner(f"Setting cluster name to {name} ...")
    call.ask("global_parameters.set", name="cluster_name", value={"value": name})
