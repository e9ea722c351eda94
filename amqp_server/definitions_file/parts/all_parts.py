"""All sections of a definitions file, in the order of their import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.definitions_file.file_content import SECTIONS
from amqp_server.definitions_file.parts.bindings import BindingsPart
from amqp_server.definitions_file.parts.exchanges import ExchangesPart
from amqp_server.definitions_file.parts.parameters import GlobalParametersPart, ParametersPart
from amqp_server.definitions_file.parts.permissions import PermissionsPart, TopicPermissionsPart
from amqp_server.definitions_file.parts.policies import PoliciesPart
from amqp_server.definitions_file.parts.queues import QueuesPart
from amqp_server.definitions_file.parts.users import UsersPart
from amqp_server.definitions_file.parts.vhosts import VhostsPart

if TYPE_CHECKING:
    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.policies.policies import Policies
    from amqp_server.definitions_file.parts.part import Part


def all_parts(broker: Broker, access: AccessControl, policies: Policies) -> dict[str, Part]:
    """Return the parts by section, in the order of `SECTIONS`.

    Args:
        broker: Virtual hosts, exchanges and queues.
        access: Users and permissions.
        policies: Applies policies.
    """
    policies_part = PoliciesPart(broker, policies)
    parts: list[Part] = [
        VhostsPart(broker),
        UsersPart(access),
        PermissionsPart(access),
        ExchangesPart(broker),
        TopicPermissionsPart(access),
        GlobalParametersPart(broker),
        policies_part,
        ParametersPart(broker, policies_part),
        QueuesPart(broker),
        BindingsPart(broker),
    ]
    assert tuple(part.section for part in parts) == SECTIONS, "later sections use earlier ones"
    return {part.section: part for part in parts}
