"""Policies on the disk: one metadata document each, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.definition_values import InvalidDefinitionError, value_of
from amqp_server.broker.policies.errors import InvalidPolicyError
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.policies.validation import policy_from
from metadata.document import Document

if TYPE_CHECKING:
    from amqp_server.broker.policies.policy import Policy

POLICIES: Final = "policies"
OPERATOR_POLICIES: Final = "operator_policies"
POLICY_KINDS: Final = {POLICIES: PolicyKind.USER, OPERATOR_POLICIES: PolicyKind.OPERATOR}
"""Kinds of policy by kind of document."""
DOCUMENT_KINDS: Final = {kind: name for name, kind in POLICY_KINDS.items()}
_SINCE: Final = "ttl_since_ns"


def policy_document(vhost: str, policy: Policy, kind: PolicyKind) -> Document:
    """Return the document of a policy of a virtual host."""
    body = {
        "pattern": policy.pattern.text,
        "apply_to": policy.apply_to.value,
        "priority": policy.priority,
        "definition": policy.definition,
        _SINCE: policy.ttl_since_ns,
    }
    return Document(DOCUMENT_KINDS[kind], vhost, policy.name, body)


def policy_from_document(document: Document) -> Policy:
    """Rebuild a policy from its document. Compiles its pattern.

    Raises:
        InvalidDefinitionError: The document holds a value that is not valid for a policy.
    """
    body = document.body
    try:
        policy = policy_from(
            document.name,
            pattern=value_of(body, "pattern", str),
            definition=value_of(body, "definition", dict),
            apply_to=value_of(body, "apply_to", str),
            priority=value_of(body, "priority", int),
            kind=POLICY_KINDS[document.kind],
        )
    except InvalidPolicyError as error:
        raise InvalidDefinitionError(error.fault) from error
    return policy.with_ttl_since(value_of(body, _SINCE, int))
