"""Rules: connections and channels come and go."""

from __future__ import annotations

import time
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pamqp.commands import Channel, Connection, Queue

from tests.statemachine.clients import Mode
from tests.statemachine.machine import MODES, WorldMachine, anything, one_of, seldom
from tests.statemachine.peer import Peer

PEERS_MAX: Final = 3
CHANNELS_MAX: Final = 2


class ConnectionRules(WorldMachine):
    """Who is there."""

    @rule(mode=st.sampled_from(MODES))
    def connect(self, mode: Mode) -> None:
        if len(self.clients.peers) >= PEERS_MAX:
            return
        peer = Peer(self.world.server.address)
        self.clients.peers.append(peer)
        self.open(peer, 1, mode)

    @rule(at=anything, mode=st.sampled_from(MODES))
    def open_channel(self, at: int, mode: Mode) -> None:
        if not self.clients.peers:
            return
        peer = one_of(self.clients.peers, at)
        used = {channel.number for channel in self.clients.of(peer)}
        if free := set(range(1, CHANNELS_MAX + 1)) - used:
            self.open(peer, min(free), mode)

    @rule(at=anything, is_meant=seldom)
    def close_channel(self, at: int, is_meant: bool) -> None:
        if not (is_meant and self.clients.channels):
            return
        channel = self.channel(at)
        self.world.begin()
        close = Channel.Close(200, "", 0, 0)
        channel.peer.call(close, Channel.CloseOk, channel.number)
        self.world.take_deliveries(channel.peer)
        self.world.channel_gone(channel)
        self.world.settle()

    @rule(at=anything, clean=st.booleans(), is_meant=seldom)
    def disconnect(self, at: int, clean: bool, is_meant: bool) -> None:
        if not (is_meant and self.clients.peers):
            return
        peer = one_of(self.clients.peers, at)
        self.world.begin()
        if clean:
            peer.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        peer.client.socket.close()
        names = [name for name, queue in self.model.queues.items() if queue.owner is peer]
        self.world.peer_gone(peer)
        for name in names:
            self.await_absence(name)
        self.world.settle()

    def await_absence(self, name: str) -> None:
        """Return when a queue is gone that another connection had for itself."""
        client = self.world.observer.client
        deadline = time.monotonic() + 30
        code: int | None = 405
        while code == 405:
            assert time.monotonic() < deadline, f"{name} stays"
            client.open_channel(2)
            client.send(Queue.Declare(queue=self.world.name(name), passive=True), 2)
            code = self.world.observer.expect(Channel.Close, 2).reply_code
            client.send(Channel.CloseOk(), 2)
        assert code == 404
