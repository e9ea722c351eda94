"""What handlers use: the mirror of the broker's state, the broker itself, and the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.management.http.host_rule import HostRule
from amqp_server.management.http.rendered import RenderedLists

if TYPE_CHECKING:
    from amqp_server.management.broker_client import BrokerClient
    from amqp_server.management.mirror import Mirror
    from amqp_server.management.settings import ManagementSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """What the handlers of one management server use.

    Attributes:
        mirror: The broker's objects and their counters.
        broker: Sends commands to the broker.
        settings: Settings of the management server.
        rendered: Lists that many clients poll.
    """

    mirror: Mirror
    broker: BrokerClient
    settings: ManagementSettings
    rendered: RenderedLists = field(default_factory=RenderedLists)

    @property
    def hosts(self) -> HostRule:
        """Which names of the server requests may have."""
        settings = self.settings
        return HostRule(settings.hosts, guest_from_anywhere=settings.guest_from_anywhere)
