"""Rules: the server stops or is killed, and starts again."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.statemachine.crash import Aftermath
from tests.statemachine.machine import WorldMachine, seldom

CHECKPOINT_INTERVALS: Final = ("0", "10ms", "5s")


class RestartRules(WorldMachine):
    """What comes back."""

    @rule(interval=st.sampled_from(CHECKPOINT_INTERVALS), is_meant=seldom)
    def stop_and_start(self, interval: str, is_meant: bool) -> None:
        if not is_meant or not self.has_news:
            return
        self.world.begin()
        code = self.world.server.terminate()
        assert code == 0, f"exit code {code}"
        for peer in list(self.clients.peers):
            self.world.peer_gone(peer)
        self.world.tidy()
        self.model.restart()
        for queue in self.model.queues.values():
            queue.returnable.clear()
        self._start_again(interval)

    @rule(interval=st.sampled_from(CHECKPOINT_INTERVALS), is_meant=seldom)
    def kill_and_start(self, interval: str, is_meant: bool) -> None:
        if not is_meant or not self.has_news:
            return
        self.world.begin()
        self.world.server.kill()
        for queue in self.model.queues.values():
            for message in queue.unacked:
                message.redelivered = True
            queue.make_ready(queue.unacked)
            queue.unacked = []
        for channel in self.clients.channels:
            channel.unacked.clear()
            channel.held.clear()
            channel.consumers.clear()
        for peer in list(self.clients.peers):
            self.world.peer_gone(peer)
        self.model.restart()
        self._start_again(interval, Aftermath(self.world))

    def _start_again(self, interval: str, aftermath: Aftermath | None = None) -> None:
        self.world.server.options = ("--offset-checkpoint-interval", interval)
        self.world.restart()
        if aftermath is not None:
            aftermath.check()
        self.world.settle()
