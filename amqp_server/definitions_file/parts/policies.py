"""The section `policies`, and the operator policies among the parameters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.policies.documents import policy_document
from amqp_server.broker.policies.errors import InvalidPolicyError
from amqp_server.broker.policies.policies import POLICIES_MAX
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.policies.validation import policy_from_json
from amqp_server.definitions_file.json_arguments import is_same
from amqp_server.definitions_file.parts.part import in_vhost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.policies.policies import Policies
    from amqp_server.broker.policies.policy import Policy
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan

OPERATOR_POLICY: Final = "operator_policy"
"""Component of the parameters that are operator policies."""


class PoliciesPart:
    """Policies; those that exist are overwritten, and applied to what lives already.

    Args:
        broker: Broker that owns the virtual hosts.
        policies: Applies policies.
    """

    section = "policies"

    def __init__(self, broker: Broker, policies: Policies) -> None:
        self._broker = broker
        self._policies = policies

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a policy; see `Part`."""
        vhost = plan.vhost_of(entry)
        name = entry.short_text("name", may_be_empty=False)
        if plan.is_first(entry, (vhost.name, name)):
            self.plan_policy(entry, plan, entry.fields, PolicyKind.USER)

    def plan_policy(
        self, entry: Entry, plan: ImportPlan, fields: Mapping[str, Any], kind: PolicyKind
    ) -> None:
        """Check a policy of either kind.

        Args:
            entry: Entry that contains it.
            plan: Gets the steps.
            fields: The policy as RabbitMQ's HTTP API has it.
            kind: Whose policy it is.

        Raises:
            DefinitionsError: The policy is not valid.
        """
        vhost = plan.vhost_of(entry)
        definition = fields.get("definition")
        if isinstance(definition, list) and all(
            isinstance(pair, list) and len(pair) == 2 for pair in definition
        ):
            # RabbitMQ's own command writes pairs in the parameters of operator policies.
            fields = {**fields, "definition": dict(definition)}
        try:
            policy = policy_from_json(fields, kind)
        except InvalidPolicyError as error:
            raise entry.error(error.fault) from error
        known = {} if vhost.existing is None else vhost.existing.policies.of(kind)
        existing = known.get(policy.name)
        if existing is not None and is_same(existing.as_json(""), policy.as_json("")):
            plan.equal(entry)
            return
        step = partial(_put, self._policies, vhost.name, policy, kind)
        if existing is None:
            place = f"vhost '{vhost.name}'"
            plan.count_new(entry, place, len(known), POLICIES_MAX)
            plan.create(entry, step)
        else:
            plan.change(entry, step)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the policies of users; see `Part`."""
        for host in list(self._broker.vhosts.values()):
            if vhost in (None, host.name):
                for policy in list(host.policies.of(PolicyKind.USER).values()):
                    yield in_vhost(vhost, host.name, _fields(policy))

    def export_operator_policies(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the operator policies as entries of the section `parameters`."""
        for host in list(self._broker.vhosts.values()):
            if vhost not in (None, host.name):
                continue
            for policy in list(host.policies.of(PolicyKind.OPERATOR).values()):
                fields = _fields(policy)
                name = fields.pop("name")
                entry = {"component": OPERATOR_POLICY, "name": name, "value": fields}
                yield in_vhost(vhost, host.name, entry)


def _fields(policy: Policy) -> dict[str, Any]:
    return {key: value for key, value in policy.as_json("").items() if key != "vhost"}


def _put(
    policies: Policies, name: str, policy: Policy, kind: PolicyKind, changes: ImportChanges
) -> None:
    vhost = changes.vhost(name)
    dated = policies.dated(name, policy, kind)
    changes.put(policy_document(name, dated, kind))
    if name in changes.new_vhosts:
        # At once: its queues are created next, and get it then.
        vhost.policies.put(kind, (dated,))
        return
    changes.on_saved.append(partial(policies.take_saved, name, (dated,), kind))
