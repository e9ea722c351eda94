"""The commands `policies.list`, `policies.set`, `policies.clear`, and those of operators."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.broker.policies.errors import (
    InvalidPolicyError,
    NoSuchPolicyError,
    NoSuchPolicyVhostError,
    TooManyPoliciesError,
)
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.policies.policies import Policies

logger = logging.getLogger("amqp_server.control.policies")

_FAMILIES = {PolicyKind.USER: "policies", PolicyKind.OPERATOR: "operator_policies"}


async def list_all(policies: Policies, kind: PolicyKind, vhost: str) -> list[dict[str, Any]]:
    """Return the policies of a virtual host by name, of all virtual hosts if it is empty."""
    try:
        found = policies.list(vhost or None, kind)
    except NoSuchPolicyVhostError as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    return [policy.as_json(name) for name, policy in found]


async def set_one(policies: Policies, kind: PolicyKind, vhost: str, **fields: object) -> bool:
    """Add or replace a policy; return whether it is new, when it is durable and applied."""
    values = {name.replace("_", "-"): value for name, value in fields.items()}
    policy = await _done(policies.parse(values, kind))
    is_new: bool = await _done(policies.set(vhost, policy, kind))
    logger.info("%s set vhost=%s name=%s", kind.value, vhost, policy.name)
    return is_new


async def put(
    policies: Policies, kind: PolicyKind, vhost: str, name: str, policy: dict[str, Any]
) -> bool:
    """Add or replace a policy that a program has as RabbitMQ's API has it; return as `set_one`.

    The members of such an object may have any type: RabbitMQ's texts say which is wrong.
    """
    parsed = await _done(policies.parse({**policy, "name": name}, kind))
    is_new: bool = await _done(policies.set(vhost, parsed, kind))
    logger.info("%s set vhost=%s name=%s", kind.value, vhost, name)
    return is_new


async def clear(policies: Policies, kind: PolicyKind, vhost: str, name: str) -> None:
    """Remove a policy; return when that is durable and applied."""
    await _done(policies.clear(vhost, name, kind))
    logger.info("%s cleared vhost=%s name=%s", kind.value, vhost, name)


async def _done(change: Awaitable[Any]) -> Any:  # noqa: ANN401 - as the change returns
    """Wait for a change and convert its errors.

    Raises:
        ControlError: The change was refused, or the disk failed.
    """
    try:
        return await change
    except InvalidPolicyError as error:
        raise ControlError(ErrorKind.INVALID_ARGUMENT, error.fault) from error
    except (NoSuchPolicyError, NoSuchPolicyVhostError) as error:
        raise ControlError(ErrorKind.NOT_FOUND, str(error)) from error
    except TooManyPoliciesError as error:
        raise ControlError(ErrorKind.LIMIT_REACHED, str(error)) from error
    except MetadataError as error:
        raise ControlError(ErrorKind.FAILED, str(error)) from error


def policy_commands(policies: Policies) -> tuple[Command, ...]:
    """Return the commands `policies.*` and `operator_policies.*`."""
    fields = {
        "vhost": str,
        "name": str,
        "pattern": str,
        "apply_to": str,
        "priority": int,
        "definition": dict,
    }
    return tuple(
        command
        for kind, family in _FAMILIES.items()
        for command in (
            Command(f"{family}.list", partial(list_all, policies, kind), {"vhost": str}),
            Command(f"{family}.set", partial(set_one, policies, kind), fields),
            Command(
                f"{family}.put",
                partial(put, policies, kind),
                {"vhost": str, "name": str, "policy": dict},
            ),
            Command(f"{family}.clear", partial(clear, policies, kind), {"vhost": str, "name": str}),
        )
    )
