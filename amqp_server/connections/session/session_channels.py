"""The channels of one session: open ones, and those whose close the client has not confirmed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from amqp_server.broker.channel import Channel
from amqp_server.broker.events.channel_events import report_channel_created
from amqp_server.protocol.channel_machine import ChannelMachine, ChannelState
from amqp_server.protocol.errors import NotAllowed
from amqp_server.protocol.methods import ChannelCloseOk, ChannelOpenOk, method_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.client import Client
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.protocol.framing import Event


class SessionChannels:
    """Channels by their numbers.

    Args:
        server: Server that limits their number, and that of all connections of a user.

    Attributes:
        opened: Open channels.
        machines: What may come next: of the open channels, and of those whose close the client has
            not confirmed.
        closings: The steps that end channels which an error has closed. Each is an event that comes
            before all that wait.
    """

    def __init__(self, server: ServerContext) -> None:
        self.opened: dict[int, Channel] = {}
        self.machines: dict[int, ChannelMachine] = {}
        self.closings: deque[Iterator[None]] = deque()
        self._server = server

    def receive(
        self, client: Client, vhost: VirtualHost | None, channel_max: int, event: Event
    ) -> None:
        """Open a channel, or take an event of one that is closing.

        Args:
            client: Client that owns the channels.
            vhost: Virtual host that it has opened.
            channel_max: Number of channels that it may open.
            event: An event of a channel that is not open.
        """
        number = event.channel
        machine = self.machines.get(number) or ChannelMachine(
            self._server.config.max_message_bytes, self._server.broker.assembly_budget, client
        )
        is_closing = machine.state is ChannelState.CLOSING
        due = machine.receive(event)
        if is_closing:
            if due is not None:
                # The client's close has crossed ours.
                client.write(method_frame(number, ChannelCloseOk()))
            elif machine.state is ChannelState.UNOPENED:
                del self.machines[number]
            return
        if len(self.opened) >= channel_max:
            # As in RabbitMQ, the limit counts channels; it does not limit their numbers.
            raise NotAllowed(
                f"number of channels opened ({len(self.opened)}) has reached the negotiated "
                f"channel_max ({channel_max})"
            )
        limits = self._server.connection_limits
        limits.check_channel(client.user)
        if vhost is None or vhost.is_deleted:
            # The virtual host was deleted a moment ago: connection.close comes next.
            return
        self.machines[number] = machine
        channel = self.opened[number] = Channel(number, client, vhost, self._server.broker)
        limits.note_channel_opened(client.user)
        channel.send(ChannelOpenOk())
        report_channel_created(channel)

    def awaits_content(self, number: int) -> bool:
        """Return whether the content of a publish is incomplete on a channel."""
        machine = self.machines.get(number)
        return machine is not None and machine.awaits_content

    def forget(self, number: int, user: str) -> None:
        """Forget a channel that the client has closed.

        Args:
            number: Its number.
            user: User whose channels are counted.
        """
        del self.opened[number]
        del self.machines[number]
        self._server.connection_limits.note_channels_closed(user, 1)

    def take(self, number: int, user: str) -> Channel | None:
        """Remove a channel that an error closes, if it is open; the client must confirm the close.

        Args:
            number: Its number.
            user: User whose channels are counted.
        """
        channel = self.opened.pop(number, None)
        if channel is not None:
            self._server.connection_limits.note_channels_closed(user, 1)
        return channel

    def take_all(self, user: str) -> list[Channel]:
        """Remove all open channels, because the session ends.

        Args:
            user: User whose channels are counted.
        """
        channels, self.opened = list(self.opened.values()), {}
        self._server.connection_limits.note_channels_closed(user, len(channels))
        return channels

    def close_machines(self) -> None:
        """Ignore from now on what comes on any channel; drop incomplete contents."""
        machines, self.machines = self.machines, {}
        for machine in machines.values():
            machine.close()

    def take_closings(self) -> list[Iterator[None]]:
        """Remove the closes that wait; the caller carries them out."""
        closings, self.closings = self.closings, deque()
        return list(closings)
