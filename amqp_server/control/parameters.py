"""The commands `parameters.*` and `global_parameters.*`."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.access.errors import NoSuchVhostError
from amqp_server.base.time_slice import TimeSlice
from amqp_server.control.field_tables import checked_name
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from amqp_server.control.requesting_user import may_enter, owner_of_request, requesting_user
from amqp_server.operations.parameter_settings import TooManyParametersError
from amqp_server.shovel.definition import COMPONENT as SHOVEL
from amqp_server.shovel.definition import ShovelError, local_vhosts, parse_shovel
from amqp_server.shovel.owner import check_owned
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.parameters import ParameterOwner
    from amqp_server.definitions_file.parts.part import Part
    from amqp_server.operations.parameter_settings import ParameterSettings

logger = logging.getLogger("amqp_server.control.parameters")

VALUE_BYTES_MAX: Final = 64 * 1024
"""Largest value, as JSON."""


async def list_all(
    broker: Broker, part: Part, vhost: str = "", component: str = ""
) -> orjson.Fragment:
    """Return parameters, with operator policies and limits of virtual hosts.

    Args:
        broker: Broker that keeps them.
        part: The section of definitions that has them.
        vhost: Virtual host; empty: all.
        component: Component; empty: all.

    Raises:
        ControlError: There is no such virtual host.
    """
    if vhost and vhost not in broker.vhosts:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    rows = (
        {"vhost": vhost, **row} if vhost else row
        for row in part.export(vhost or None)
        if component in ("", row["component"])
    )
    return await _array(rows)


async def list_global(broker: Broker) -> orjson.Fragment:
    """Return the global parameters, those too that definitions do not have."""
    kept = list(broker.global_parameters.items())
    return await _array({"name": name, "value": value} for name, value in kept)


async def _array(rows: Iterable[dict[str, Any]]) -> orjson.Fragment:
    """Return rows as a JSON array, encoded in slices: there may be 100,000."""
    encoded: list[bytes] = []
    time_slice = TimeSlice()
    for row in rows:
        encoded.append(orjson.dumps(row))
        await time_slice.yield_if_due()
    return orjson.Fragment(b"[" + b",".join(encoded) + b"]")


async def set_one(
    settings: ParameterSettings,
    access: AccessControl,
    vhost: str,
    component: str,
    name: str,
    value: dict[str, Any],
) -> bool:
    """Add or replace a parameter; return whether it is new, when it is on the disk.

    Args:
        settings: Parameters of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.
        component: Component that the parameter is for.
        name: Name of the parameter.
        value: Object whose member `value` is the value.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    if not component or "/" in component:
        reason = f"component '{component}' is empty or contains a /"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    checked_name("component", component)
    given = _value(value)
    owner = owner_of_request(access)
    if component == SHOVEL:
        _check_shovel(access, _name(name), given, owner)
    is_new: bool = await _done(settings.set(vhost, component, _name(name), given, owner))
    logger.info("parameter set vhost=%r component=%r name=%r", vhost, component, name)
    return is_new


def _check_shovel(
    access: AccessControl, name: str, value: object, owner: ParameterOwner | None
) -> None:
    """Check that a value is a shovel that the requesting user may set.

    In the virtual hosts of this server that it names without a login, a shovel of an administrator
    has all rights, and one of another user the rights of this user, who must have some there.

    Raises:
        ControlError: It is none, or the user may not.
    """
    try:
        definition = parse_shovel(name, value)
        if owner is not None:
            check_owned(definition, owner)
    except ShovelError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, "\n".join(error.faults)) from error
    user = requesting_user.get()
    for vhost in sorted(local_vhosts(definition)):
        if vhost not in access.vhost_names or not may_enter(access, vhost):
            reason = f'user "{user or "none"}" may not connect to vhost "{vhost}"'
            raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


async def clear(settings: ParameterSettings, vhost: str, component: str, name: str) -> bool:
    """Remove a parameter; return whether there was one, when it cannot come back."""
    existed: bool = await _done(settings.clear(vhost, component, name))
    logger.info("parameter cleared vhost=%r component=%r name=%r", vhost, component, name)
    return existed


async def set_global(settings: ParameterSettings, name: str, value: dict[str, Any]) -> bool:
    """Add or replace a global parameter; return whether it is new, when it is on the disk.

    Args:
        settings: Parameters of the server.
        name: Name of the parameter.
        value: Object whose member `value` is the value.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    is_new: bool = await _done(settings.set_global(_name(name), _value(value)))
    logger.info("global parameter set name=%r", name)
    return is_new


async def clear_global(settings: ParameterSettings, name: str) -> bool:
    """Remove a global parameter; return whether there was one, when it cannot come back."""
    existed: bool = await _done(settings.clear_global(name))
    logger.info("global parameter cleared name=%r", name)
    return existed


def _name(name: str) -> str:
    if not name:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, "'name' is empty")
    return checked_name("name", name)


def _value(box: dict[str, Any]) -> object:
    # An argument of a command has one type, and a parameter may have any.
    if box.keys() != {"value"}:
        reason = "'value' must be an object with the only member 'value'"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    size = len(orjson.dumps(box["value"]))
    if size > VALUE_BYTES_MAX:
        reason = f"the value has {size} bytes as JSON, at most {VALUE_BYTES_MAX} are allowed"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return box["value"]


async def _done(change: Awaitable[bool]) -> bool:
    """Wait for a change and convert its errors.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        return await change
    except NoSuchVhostError as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except TooManyParametersError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def parameter_commands(
    broker: Broker, access: AccessControl, parts: dict[str, Part], settings: ParameterSettings
) -> tuple[Command, ...]:
    """Return the commands of a server with these parameters."""
    place = {"vhost": str, "component": str, "name": str}
    return (
        Command(
            "parameters.list",
            partial(list_all, broker, parts["parameters"]),
            optional={"vhost": str, "component": str},
        ),
        Command("parameters.set", partial(set_one, settings, access), {**place, "value": dict}),
        Command("parameters.clear", partial(clear, settings), place),
        Command("global_parameters.list", partial(list_global, broker)),
        Command(
            "global_parameters.set", partial(set_global, settings), {"name": str, "value": dict}
        ),
        Command("global_parameters.clear", partial(clear_global, settings), {"name": str}),
    )
