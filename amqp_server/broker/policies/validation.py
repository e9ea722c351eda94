"""Makes a policy from JSON values, or says in RabbitMQ's words what is wrong with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from amqp_server.access.patterns import InvalidPatternError
from amqp_server.base.erlang_text import erlang_text
from amqp_server.broker.policies.errors import InvalidPolicyError
from amqp_server.broker.policies.keys import INTEGER_MAX, KEYS
from amqp_server.broker.policies.name_pattern import NamePattern
from amqp_server.broker.policies.new_values import check_new_values
from amqp_server.broker.policies.policy import ApplyTo, Policy, PolicyKind

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_BYTES_MAX: Final = 255
"""Longest name of a policy."""
DEFINITION_BYTES_MAX: Final = 64 * 1024
"""Largest definition, as JSON."""


def policy_from(
    name: str,
    *,
    pattern: object,
    definition: object,
    apply_to: object = "all",
    priority: object = 0,
    kind: PolicyKind = PolicyKind.USER,
) -> Policy:
    """Return a policy of these JSON values.

    Compiling the pattern takes up to 20 ms: call it in a worker thread.

    Args:
        name: Name of the policy.
        pattern: Regular expression that is searched in names.
        definition: Values by key.
        apply_to: What it applies to, one of `ApplyTo`.
        priority: The policy with the highest one counts.
        kind: Whose policy it is.

    Raises:
        InvalidPolicyError: A value is not valid.
    """
    if not 0 < len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
        raise InvalidPolicyError(f"the name of a policy must have 1 to {NAME_BYTES_MAX} bytes")
    compiled = _pattern(pattern)
    if type(priority) is not int or abs(priority) > INTEGER_MAX:
        shown = erlang_text(priority)
        raise InvalidPolicyError(f"priority should be a number, actually was {shown}")
    checked = _definition(definition, kind)
    return Policy(name, compiled, checked, _apply_to(apply_to), priority)


def policy_from_json(fields: Mapping[str, object], kind: PolicyKind = PolicyKind.USER) -> Policy:
    """Return a new policy of an object as in RabbitMQ's definitions and HTTP API.

    As `policy_from`, with all bounds that a stored policy may pass.

    Args:
        fields: `name`, `pattern`, `definition`, and perhaps `apply-to` and `priority`; others are
            ignored.
        kind: Whose policy it is.

    Raises:
        InvalidPolicyError: A value is missing or not valid.
    """
    name = fields.get("name")
    if not isinstance(name, str):
        raise InvalidPolicyError("the name of a policy must be a text")
    for key in ("pattern", "definition"):
        if key not in fields:
            raise InvalidPolicyError(f"{key} not present but mandatory")
    policy = policy_from(
        name,
        pattern=fields["pattern"],
        definition=fields["definition"],
        apply_to=fields.get("apply-to", "all"),
        priority=fields.get("priority", 0),
        kind=kind,
    )
    check_new_values(policy.definition)
    return policy


def _pattern(text: object) -> NamePattern:
    if not isinstance(text, str):
        shown = erlang_text(text)
        raise InvalidPolicyError(f"pattern should be a binary but was {shown}")
    try:
        return NamePattern(text)
    except InvalidPatternError as error:
        raise InvalidPolicyError(
            f"pattern should be regular expression but is invalid: {error}"
        ) from error


def _apply_to(value: object) -> ApplyTo:
    if isinstance(value, str) and value in set(ApplyTo):
        return ApplyTo(value)
    shown = value if isinstance(value, str) else erlang_text(value)
    raise InvalidPolicyError(
        f"apply-to '{shown}' unrecognised; should be 'queues', 'exchanges' or 'all'"
    )


def _definition(values: object, kind: PolicyKind) -> dict[str, object]:
    """Check a definition: first the known keys in their order, then the unknown ones."""
    if not isinstance(values, dict):
        shown = erlang_text(values)
        raise InvalidPolicyError(f"definition should be a list, actually was {shown}")
    if not values:
        raise InvalidPolicyError("no policy provided")
    unknown: dict[str, object] = {}
    for name, value in values.items():
        key = KEYS.get(name)
        if key is None or (kind is PolicyKind.OPERATOR and not key.is_operators):
            unknown[name] = value
        elif not key.is_valid(value):
            raise InvalidPolicyError(f"{erlang_text(value)} is not a valid {key.noun}")
    if unknown:
        raise InvalidPolicyError(f"{erlang_text(unknown)} are not recognised policy settings")
    size = len(json.dumps(values))
    if size > DEFINITION_BYTES_MAX:
        raise InvalidPolicyError(
            f"the definition has {size} bytes, at most {DEFINITION_BYTES_MAX} are allowed"
        )
    return dict(values)
