"""The sections `parameters` and `global_parameters`: kept, and given back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.parameters import (
    PARAMETERS_MAX,
    ParameterOwner,
    global_parameter_document,
    parameter_document,
)
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.json_arguments import is_same
from amqp_server.definitions_file.parts.part import in_vhost
from amqp_server.definitions_file.parts.policies import OPERATOR_POLICY
from amqp_server.definitions_file.parts.vhosts import read_limits, set_limits
from amqp_server.shovel.definition import COMPONENT as SHOVEL
from amqp_server.shovel.definition import ShovelError, parse_shovel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan, PlannedVhost
    from amqp_server.definitions_file.parts.policies import PoliciesPart

VHOST_LIMITS: Final = "vhost-limits"
"""Component of the limits of virtual hosts."""
_INTERNAL: Final = "internal"


class ParametersPart:
    """Parameters of virtual hosts: of shovels, of federation, and of other programs.

    RabbitMQ has operator policies and limits of virtual hosts among them; these have an effect.

    Args:
        broker: Broker that keeps them.
        policies: The part that knows policies.
    """

    section = "parameters"

    def __init__(self, broker: Broker, policies: PoliciesPart) -> None:
        self._broker = broker
        self._policies = policies

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a parameter; see `Part`."""
        vhost = plan.vhost_of(entry)
        component = entry.short_text("component", may_be_empty=False)
        name = entry.short_text("name", may_be_empty=False)
        key = (vhost.name, component, name)
        if not plan.is_first(entry, key):
            return
        if component == OPERATOR_POLICY:
            fields = {**entry.object("value"), "name": name}
            self._policies.plan_policy(entry, plan, fields, PolicyKind.OPERATOR)
            return
        if component == VHOST_LIMITS:
            self._plan_limits(entry, plan, vhost)
            return
        if "/" in component:
            raise entry.error(f"'component' is {component!r:.100}, and contains a /")
        if "value" not in entry.fields:
            raise entry.error("'value' is missing")
        value = entry.fields["value"]
        if component == SHOVEL:
            try:
                parse_shovel(name, value)
            except ShovelError as error:
                raise entry.error(str(error)) from error
        owner = plan.importer or _owner(entry)
        kept = {} if vhost.existing is None else vhost.existing.parameters
        step = partial(_keep, vhost.name, component, name, value, owner)
        if vhost.existing is None or (component, name) not in kept:
            plan.count_new(entry, f"vhost '{vhost.name}'", len(kept), PARAMETERS_MAX)
            plan.create(entry, step)
        elif is_same(kept[component, name], value) and owner in (
            # A file that names no owner, as those of RabbitMQ, changes none.
            None,
            vhost.existing.parameter_owners.get((component, name)),
        ):
            plan.equal(entry)
        else:
            plan.change(entry, step)

    def _plan_limits(self, entry: Entry, plan: ImportPlan, vhost: PlannedVhost) -> None:
        limits = read_limits(entry, entry.fields.get("value"))
        if vhost.existing is not None and vhost.existing.limits == limits:
            plan.equal(entry)
        elif vhost.existing is not None and vhost.existing.limits.values:
            plan.change(entry, partial(set_limits, vhost.name, limits))
        else:
            plan.create(entry, partial(set_limits, vhost.name, limits))

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the parameters, operator policies and limits of virtual hosts; see `Part`."""
        yield from self._policies.export_operator_policies(vhost)
        for host in list(self._broker.vhosts.values()):
            if vhost not in (None, host.name):
                continue
            if host.limits.values:
                fields = {"component": VHOST_LIMITS, "name": "limits", "value": host.limits.values}
                yield in_vhost(vhost, host.name, fields)
            for (component, name), value in list(host.parameters.items()):
                fields = {"component": component, "name": name, "value": value}
                owner = host.parameter_owners.get((component, name))
                if owner is not None:
                    # RabbitMQ reads the other members and ignores this one.
                    fields["owner"] = owner._asdict()
                yield in_vhost(vhost, host.name, fields)


def _owner(entry: Entry) -> ParameterOwner | None:
    """Return the owner that an entry names.

    Without it a shovel that a user has set would have the rights of the administrator who imports.

    Raises:
        DefinitionsError: It is no owner.
    """
    if entry.fields.get("owner") is None:
        return None
    named = replace(entry, fields=entry.object("owner"))
    try:
        user = named.short_text("user", may_be_empty=False)
        return ParameterOwner(user, named.short_text("backend", may_be_empty=False))
    except DefinitionsError as error:
        raise DefinitionsError(f"{error}, in 'owner'") from None


def _keep(
    vhost: str,
    component: str,
    name: str,
    value: object,
    owner: ParameterOwner | None,
    changes: ImportChanges,
) -> None:
    changes.put(parameter_document(vhost, component, name, value, owner))
    host, key = changes.vhost(vhost), (component, name)
    changes.on_saved.append(partial(host.parameters.__setitem__, key, value))
    changes.on_saved.append(partial(host.set_parameter_owner, key, owner))
    changes.on_saved.append(changes.broker.on_parameters_changed)


class GlobalParametersPart:
    """Parameters of the whole server, such as `cluster_name`.

    Args:
        broker: Broker that keeps them.
    """

    section = "global_parameters"

    def __init__(self, broker: Broker) -> None:
        self._kept = broker.global_parameters

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a parameter; see `Part`."""
        name = entry.short_text("name", may_be_empty=False)
        if not plan.is_first(entry, (name,)):
            return
        if name.startswith(_INTERNAL):
            plan.skip(entry, (name,), f"'{name}' belongs to the server that wrote the file")
            return
        if "value" not in entry.fields:
            raise entry.error("'value' is missing")
        value = entry.fields["value"]
        step = partial(_keep_global, self._kept, name, value)
        if name not in self._kept:
            plan.count_new(entry, "the server", len(self._kept), PARAMETERS_MAX)
            plan.create(entry, step)
        elif is_same(self._kept[name], value):
            plan.equal(entry)
        else:
            plan.change(entry, step)

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the parameters; none in a file of one virtual host. See `Part`."""
        if vhost is None:
            for name, value in list(self._kept.items()):
                # What belongs to this server is for no other, as in RabbitMQ 4.
                if not name.startswith(_INTERNAL):
                    yield {"name": name, "value": value}


def _keep_global(kept: dict[str, Any], name: str, value: object, changes: ImportChanges) -> None:
    changes.put(global_parameter_document(name, value))
    changes.on_saved.append(partial(kept.__setitem__, name, value))
