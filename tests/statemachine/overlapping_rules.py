"""Rules: a client's session ends, in steps, while other sessions have steps under way.

The other rules wait for each answer before the next client asks. Here several clients have sent
what they want before the server handles any of it, or one has gone before its steps are taken.
"""

from __future__ import annotations

from typing import Final, Literal

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pamqp import frame
from pamqp.commands import Channel, Connection, Queue

from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect
from tests.statemachine.clients import ModelChannel
from tests.statemachine.connection_rules import ConnectionRules
from tests.statemachine.machine import anything

Ending = Literal["close", "error", "close connection", "vanish"]
ENDINGS: Final[tuple[Ending, ...]] = ("close", "error", "close connection", "vanish")
Other = Literal["refused login", "unfinished login", "vanishing", "error", "question"]
OTHERS: Final[tuple[Other, ...]] = (
    "refused login",
    "unfinished login",
    "vanishing",
    "error",
    "question",
)
NUMBER: Final = 1
PASSIVE: Final = frame.marshal(Queue.Declare(queue="no such queue", passive=True), NUMBER)
CLOSE_OK: Final = frame.marshal(Channel.CloseOk(), NUMBER)
WRONG: Final = Connection.StartOk({}, "PLAIN", "\0nobody\0wrong", "en_US")


class OverlappingRules(ConnectionRules):
    """Sessions that end beside others."""

    @rule(
        at=anything,
        ending=st.sampled_from(ENDINGS),
        others=st.lists(st.sampled_from(OTHERS), min_size=1, max_size=3),
    )
    def end_beside_others(self, at: int, ending: Ending, others: list[Other]) -> None:
        if not self.clients.channels:
            return
        channel = self.channel(at)
        address = self.world.server.address
        clients = [self._prepared(other, address) for other in others]
        self.world.begin()
        names = [n for n, queue in self.model.queues.items() if queue.owner is channel.peer]
        self._send(channel, ending)
        for client, other in zip(clients, others, strict=True):
            self._ask(client, other)
        for client, other in zip(clients, others, strict=True):
            self._expect(client, other)
        self._await_end(channel, ending)
        if ending in ("close", "error"):
            self.world.channel_gone(channel)
        else:
            self.world.peer_gone(channel.peer)
            for name in names:
                self.await_absence(name)
        self.world.settle()

    def _prepared(self, other: Other, address: tuple[str, int]) -> AmqpClient:
        """Return another client that is about to ask."""
        if other in ("refused login", "unfinished login"):
            client = AmqpClient(address)
            client.send_raw(PROTOCOL_HEADER)
            client.expect(Connection.Start, 0)
        else:
            client = connect(address)
            client.open_channel(NUMBER)
        return client

    def _send(self, channel: ModelChannel, ending: Ending) -> None:
        client = channel.peer.client
        if ending == "close":
            client.send(Channel.Close(200, "", 0, 0), channel.number)
        elif ending == "error":
            client.send(Queue.Declare(queue="no such queue", passive=True), channel.number)
        elif ending == "close connection":
            client.send(Connection.Close(200, "", 0, 0), 0)
        else:
            client.socket.close()

    def _ask(self, client: AmqpClient, other: Other) -> None:
        if other == "refused login":
            client.send(WRONG, 0)
        elif other in ("unfinished login", "vanishing"):
            if other == "vanishing":
                client.send_raw(PASSIVE + CLOSE_OK)
            client.socket.close()
        elif other == "error":
            client.send_raw(PASSIVE)
        else:
            client.send(Channel.Flow(active=True), NUMBER)

    def _expect(self, client: AmqpClient, other: Other) -> None:
        if other == "error":
            assert client.expect(Channel.Close, NUMBER).reply_code == 404
        elif other == "question":
            client.expect(Channel.FlowOk, NUMBER)
        # A refused login is answered after a delay, with the end of the connection.
        client.socket.close()

    def _await_end(self, channel: ModelChannel, ending: Ending) -> None:
        """Return when the client has the answer to its close, and take what came before it."""
        peer = channel.peer
        if ending == "close":
            peer.expect(Channel.CloseOk, channel.number)
        elif ending == "error":
            assert peer.expect(Channel.Close, channel.number).reply_code == 404
            peer.client.send(Channel.CloseOk(), channel.number)
        elif ending == "close connection":
            peer.expect(Connection.CloseOk, 0)
        if ending != "vanish":
            self.world.take_deliveries(peer)
