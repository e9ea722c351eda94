"""Several clients at once, each slice one step long: sessions end in every state they can have.

A channel or a connection is closed, or lost, while the steps of a method are under way; a login
fails; another client's request waits for a commit. The others are answered, no message is lost, and
the sessions take each entry of the tables in `session_machine`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from pamqp import frame
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx

from amqp_server.access.backends.backend import Identity
from amqp_server.access.backends.login import Login
from amqp_server.base.limits import Limits
from amqp_server.broker.rights import AnswerAwaited
from amqp_server.broker.transactions.commit import Commit
from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.connections.session.client_session import ClientSession
from amqp_server.connections.session.session_machine import (
    STAGES,
    WORKS,
    SessionMachine,
    Stage,
    StageEvent,
    Work,
    WorkEvent,
)
from amqp_server.protocol.errors import InternalError
from tests.amqp_client import PERSISTENT, PROTOCOL_HEADER, AmqpClient, ConnectionLostError, connect
from tests.cutting import connection_of, cut_everywhere, read, together
from tests.limits import HANG_SECONDS
from tests.stopwatch import Stopwatch
from tests.threaded_server import ThreadedServer

MESSAGES = 20
QUEUES = [f"q{number}" for number in range(8)]
PASSIVE = frame.marshal(Queue.Declare(queue="q0", passive=True), 1)
MISSING = frame.marshal(Queue.Declare(queue="missing", passive=True), 1)
CLOSE = frame.marshal(Connection.Close(200, "", 0, 0), 0)
NEW_SECRET = frame.marshal(Connection.UpdateSecret("new", "test"), 0)
Answer = asyncio.Future[None]


class Seen:
    """What the machines of all sessions have gone through.

    Attributes:
        stages: Stages with the events that changed them.
        works: Works, too.
        together: Stages with the work that was under way.
        machines: All machines.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stages: set[tuple[Stage, StageEvent]] = set()
        self.works: set[tuple[Work, WorkEvent]] = set()
        self.together: set[tuple[Stage, Work]] = set()
        self.machines: set[SessionMachine] = set()
        advance, change_work = SessionMachine.advance, SessionMachine.change_work

        def noted_stage(machine: SessionMachine, event: StageEvent) -> Stage:
            before = advance(machine, event)
            self.stages.add((before, event))
            self.machines.add(machine)
            return before

        def noted_work(machine: SessionMachine, event: WorkEvent) -> Work:
            before = machine.work
            following = change_work(machine, event)
            self.works.add((before, event))
            self.together.add((machine.stage, following))
            self.machines.add(machine)
            return following

        monkeypatch.setattr(SessionMachine, "advance", noted_stage)
        monkeypatch.setattr(SessionMachine, "change_work", noted_work)


class HeldCommit:
    """Stops a commit when it has the queues that it publishes to, until `go_on` is called.

    Attributes:
        has_stopped: Set when a commit has stopped.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_stopped = threading.Event()
        self._is_going_on = False
        carry_out = Commit.carry_out

        def stopped(commit: Commit) -> Iterator[None]:
            steps = carry_out(commit)
            for _ in steps:
                yield
                if commit._channel.broker.commits._isolated:
                    self.has_stopped.set()
                    while not self._is_going_on:
                        yield

        monkeypatch.setattr(Commit, "carry_out", stopped)

    def go_on(self) -> None:
        """Let it be carried out to its end."""
        self._is_going_on = True


class Clients(NamedTuple):
    """A server, and three of its clients.

    Attributes:
        server: The server.
        holder: Has all messages of `full`, unanswered.
        modest: Asks for little.
        reader: Looks at queues.
        commit: Stops the commit of the modest client.
    """

    server: ThreadedServer
    holder: AmqpClient
    modest: AmqpClient
    reader: AmqpClient
    commit: HeldCommit

    @property
    def session(self) -> ClientSession:
        """Session of the holder; on the loop only."""
        return session_of(self.server, self.holder)

    def all_are_back(self) -> None:
        """Check that the holder holds nothing any more: it has heard of its end."""
        assert self.reader.ready_count("full") == MESSAGES

    def await_all(self) -> None:
        """Return when the holder, which has vanished, holds nothing any more."""
        while self.reader.ready_count("full") != MESSAGES:
            pass

    def one_in_each(self) -> None:
        """Return when a publish has reached all queues."""
        for name in QUEUES:
            while self.reader.ready_count(name) != 1:
                pass


def session_of(server: ThreadedServer, client: AmqpClient) -> ClientSession:
    session = connection_of(server, client)._session
    assert session is not None
    return session


def to_all(client: AmqpClient) -> bytes:
    """Return a publish that takes a step for each queue."""
    return client.publish_octets(Basic.Publish(exchange="all"), b"to all", PERSISTENT)


def answered(client: AmqpClient, *answers: type[Frame]) -> Frame:
    """Return the first of the answers that comes; others may come before it."""
    while True:
        _, value = client.receive()
        if isinstance(value, answers):
            return value


def closed(client: AmqpClient, code: int) -> None:
    """Expect that the server closes the connection, and confirm it."""
    close = answered(client, Connection.Close)
    assert isinstance(close, Connection.Close)
    assert close.reply_code == code
    client.send(Connection.CloseOk(), 0)


def begin_work(clients: Clients, octets: bytes) -> Work:
    """Let the session of the holder begin something that takes steps; to be called on the loop."""
    read(clients.server, clients.holder, octets)
    session = clients.session
    while session._states.work is Work.IDLE:
        # The loop had no time left when it read, or an error comes before the close of a channel.
        session.run_turn()
    return session._states.work


# What a client does while others do something else


def an_error_closes_a_channel(clients: Clients) -> None:
    together(clients.server, (clients.holder, MISSING), (clients.modest, PASSIVE))
    clients.modest.expect(Queue.DeclareOk)
    assert clients.holder.expect(Channel.Close).reply_code == 404
    clients.all_are_back()


def the_connection_fails_while_a_channel_closes(clients: Clients) -> None:
    def fail() -> Work:
        work = begin_work(clients, MISSING)
        read(clients.server, clients.modest, PASSIVE)
        session = clients.session
        session._closing.fail(session, InternalError("test"))
        return work

    assert clients.server.call(fail) is Work.CLOSING_CHANNEL
    clients.modest.expect(Queue.DeclareOk)
    assert clients.holder.expect(Channel.Close).reply_code == 404
    closed(clients.holder, 541)
    clients.all_are_back()


def the_connection_fails_before_a_channel_closes(clients: Clients) -> None:
    def fail() -> Work:
        session = clients.session
        read(clients.server, clients.holder, MISSING)
        while not session._channels.closings:
            # The loop had no time left when it read.
            session.run_turn()
        work = session._states.work
        session._closing.fail(session, InternalError("test"))
        return work

    assert clients.server.call(fail) is Work.IDLE
    assert clients.holder.expect(Channel.Close).reply_code == 404
    closed(clients.holder, 541)
    clients.all_are_back()


def the_connection_fails_while_a_publish_is_under_way(clients: Clients) -> None:
    def fail() -> Work:
        begin_work(clients, to_all(clients.holder))
        session = clients.session
        session._closing.fail(session, InternalError("test"))
        return session._states.work

    assert clients.server.call(fail) is Work.HANDLING
    closed(clients.holder, 541)
    clients.one_in_each()
    clients.all_are_back()


def both_sides_close(clients: Clients) -> None:
    def close() -> None:
        session = clients.session
        session._closing.fail(session, InternalError("test"))
        assert session._states.stage is Stage.RELEASING
        read(clients.server, clients.holder, CLOSE)

    clients.server.call(close)
    assert clients.holder.expect(Connection.Close, 0).reply_code == 541
    clients.holder.expect(Connection.CloseOk, 0)
    clients.all_are_back()


def the_server_closes_a_client_that_closes(clients: Clients) -> None:
    def close() -> Stage:
        session = clients.session
        read(clients.server, clients.holder, CLOSE)
        while session._states.stage is Stage.OPEN:
            session.run_turn()
        stage = session._states.stage
        deque(session.force_close("test"), maxlen=0)
        return stage

    assert clients.server.call(close) is Stage.RELEASING
    clients.holder.expect(Connection.CloseOk, 0)
    clients.all_are_back()


def the_server_closes_a_client_whose_connection_has_failed(clients: Clients) -> None:
    def close() -> Stage:
        session = clients.session
        session._closing.fail(session, InternalError("test"))
        stage = session._states.stage
        deque(session.force_close("test"), maxlen=0)
        return stage

    assert clients.server.call(close) is Stage.RELEASING
    closed(clients.holder, 541)
    clients.all_are_back()


def the_client_vanishes_while_its_session_ends(clients: Clients) -> None:
    def vanish() -> Stage:
        read(clients.server, clients.holder, CLOSE)
        read(clients.server, clients.modest, PASSIVE)
        session = clients.session
        while session._states.stage is Stage.OPEN:
            session.run_turn()
        stage = session._states.stage
        connection_of(clients.server, clients.holder).abandon("test")
        return stage

    assert clients.server.call(vanish) is Stage.RELEASING
    clients.modest.expect(Queue.DeclareOk)
    clients.await_all()


def the_client_vanishes_while_a_publish_is_under_way(clients: Clients) -> None:
    def vanish() -> Work:
        work = begin_work(clients, to_all(clients.holder))
        connection_of(clients.server, clients.holder).abandon("test")
        return work

    assert clients.server.call(vanish) is Work.HANDLING
    clients.one_in_each()
    clients.await_all()


def the_client_vanishes_while_its_reply_waits_for_the_disk(clients: Clients) -> None:
    declare = frame.marshal(Queue.Declare(queue="new", durable=True), 1)

    def vanish() -> None:
        read(clients.server, clients.holder, declare + to_all(clients.holder))
        while not clients.session._replies.waiting:
            # The loop had no time left when it read.
            clients.session.run_turn()
        connection_of(clients.server, clients.holder).abandon("test")

    clients.server.call(vanish)
    clients.one_in_each()
    clients.await_all()


def the_client_vanishes_while_a_channel_closes(clients: Clients) -> None:
    def vanish() -> Work:
        work = begin_work(clients, MISSING)
        connection_of(clients.server, clients.holder).abandon("test")
        return work

    assert clients.server.call(vanish) is Work.CLOSING_CHANNEL
    clients.await_all()


def a_login_fails_while_a_publish_is_under_way(clients: Clients) -> None:
    wrong = frame.marshal(Connection.StartOk({}, "PLAIN", "\0nobody\0wrong", "en_US"), 0)
    with AmqpClient(clients.server.address) as stranger:
        stranger.send_raw(PROTOCOL_HEADER)
        stranger.expect(Connection.Start, 0)
        together(clients.server, (clients.holder, to_all(clients.holder)), (stranger, wrong))
        with pytest.raises(ConnectionLostError):
            stranger.receive()
    clients.holder.close()
    clients.one_in_each()


def a_client_vanishes_before_its_login(clients: Clients) -> None:
    with AmqpClient(clients.server.address) as stranger:
        stranger.send_raw(PROTOCOL_HEADER)
        stranger.expect(Connection.Start, 0)
    clients.server.wait_until(lambda: len(clients.server.connections) == 3)
    clients.holder.close()
    clients.all_are_back()


def tuned(client: AmqpClient) -> None:
    """Go through the handshake until connection.open is due."""
    tune = client.login()
    client.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)


def ask_a_back_end(clients: Clients, client: AmqpClient) -> tuple[ClientSession, Answer]:
    """Send connection.open; return when a back end is asked for the permission."""
    server = clients.server
    session = server.call(lambda: session_of(server, client))
    authenticator = session._machine._authenticator
    check = authenticator.check_vhost

    def ask() -> Answer:
        answer = asyncio.get_running_loop().create_future()

        def check_when_answered(user: str, name: str) -> None:
            if not answer.done():
                raise AnswerAwaited("not known yet", answer)
            check(user, name)

        authenticator.check_vhost = check_when_answered  # type: ignore[method-assign]
        return answer

    answer = server.call(ask)
    client.send(Connection.Open(virtual_host="/"), 0)
    server.wait_until(lambda: session._states.work is Work.BLOCKED)
    return session, answer


def a_client_vanishes_while_a_back_end_decides_about_its_virtual_host(clients: Clients) -> None:
    server = clients.server
    with AmqpClient(server.address) as stranger:
        tuned(stranger)
        session, answer = ask_a_back_end(clients, stranger)
        # What waits is not read: the server would see the end of the stream after the answer.
        server.call(lambda: connection_of(server, stranger).abandon("test"))
        server.wait_until(lambda: len(server.connections) == 3)
    assert server.call(lambda: session._states.stage) is Stage.LOST_HANDSHAKE
    server.call(lambda: answer.set_result(None))
    server.wait_until(lambda: session._states.stage is Stage.GONE)
    assert (session.user, session.handshake.vhost) == ("", "")
    clients.holder.close()
    clients.all_are_back()


def the_server_closes_a_client_whose_virtual_host_a_back_end_decides_about(
    clients: Clients,
) -> None:
    server = clients.server
    with AmqpClient(server.address) as stranger:
        tuned(stranger)
        session, answer = ask_a_back_end(clients, stranger)

        def close() -> None:
            connection = connection_of(server, stranger)
            deque(connection.force_close("test"), maxlen=0)
            answer.set_result(None)

        server.call(close)
        server.wait_until(lambda: session._states.work is Work.IDLE)
        assert server.call(lambda: (session.user, session.is_open)) == ("", False)
        # The client keeps its side open: the server does not wait for it.
        server.wait_until(lambda: len(server.connections) == 3)
    clients.holder.close()
    clients.all_are_back()


def a_credential_expires_before_the_virtual_host_is_open(clients: Clients) -> None:
    server = clients.server
    with AmqpClient(server.address) as stranger:
        tuned(stranger)
        expire(server.call(lambda: session_of(server, stranger)), time.time() - 1)
        stranger.send(Connection.Open(virtual_host="/"), 0)
        closed(stranger, 320)
    clients.holder.close()
    clients.all_are_back()


def the_client_vanishes_with_a_new_secret(clients: Clients) -> None:
    session = clients.server.call(lambda: clients.session)
    asked: list[bytes] = []

    def vanish() -> Work:
        expire(session, time.time() + 3600)

        def renew(secret: bytes, _vhost: str, _reason: str) -> Answer:
            asked.append(secret)
            answer = asyncio.get_running_loop().create_future()
            answer.set_result("")
            return answer

        session._machine._authenticator.renew = renew  # type: ignore[assignment]
        work = begin_work(clients, to_all(clients.holder) + NEW_SECRET)
        connection_of(clients.server, clients.holder).abandon("test")
        return work

    assert clients.server.call(vanish) is Work.HANDLING
    clients.one_in_each()
    clients.await_all()
    clients.server.wait_until(lambda: session._states.stage is Stage.GONE)
    assert asked == []
    assert clients.server.call(lambda: session._login.expiry._timer) is None


def expire(session: ClientSession, at_seconds: float) -> None:
    """Let the credential of a session expire at a Unix time."""
    authenticator = session._machine._authenticator
    assert isinstance(authenticator, PeerAuthenticator)
    identity = Identity("guest", expires=at_seconds)
    authenticator._accept(Login("guest", (), "test", authenticator.accepted.rules, identity))


def begin_commit(clients: Clients, octets: bytes) -> None:
    """Let the modest client begin a commit that has all queues, and the holder wait for it."""
    clients.modest.call(Tx.Select(), Tx.SelectOk)
    commit = to_all(clients.modest) + frame.marshal(Tx.Commit(), 1)
    together(clients.server, (clients.modest, commit))
    assert clients.commit.has_stopped.wait(HANG_SECONDS)
    together(clients.server, (clients.holder, octets))
    clients.server.wait_until(lambda: clients.session._states.work is Work.BLOCKED)


def a_publish_waits_for_a_commit(clients: Clients) -> None:
    begin_commit(clients, to_all(clients.holder) + PASSIVE)
    clients.commit.go_on()
    answered(clients.modest, Tx.CommitOk)
    declared = answered(clients.holder, Queue.DeclareOk)
    assert isinstance(declared, Queue.DeclareOk)
    assert declared.message_count == 2
    clients.holder.close()
    clients.all_are_back()


def the_server_closes_a_client_that_waits_for_a_commit(clients: Clients) -> None:
    begin_commit(clients, to_all(clients.holder) * 2 + PASSIVE)

    def close() -> None:
        session = clients.session
        clients.commit.go_on()
        deque(session.force_close("test"), maxlen=0)

    clients.server.call(close)
    declared = answered(clients.holder, Queue.DeclareOk)
    assert isinstance(declared, Queue.DeclareOk)
    assert declared.message_count == 3
    closed(clients.holder, 320)
    answered(clients.modest, Tx.CommitOk)
    clients.all_are_back()


def the_client_vanishes_while_it_waits_for_a_commit(clients: Clients) -> None:
    begin_commit(clients, to_all(clients.holder))

    def vanish() -> Work:
        connection_of(clients.server, clients.holder).abandon("test")
        return clients.session._states.work

    assert clients.server.call(vanish) is Work.BLOCKED
    clients.server.wait_until(lambda: len(clients.server.connections) == 2)
    clients.commit.go_on()
    answered(clients.modest, Tx.CommitOk)
    for name in QUEUES:
        while clients.reader.ready_count(name) != 2:
            pass
    clients.await_all()


def the_rest_is_handled_at_once(clients: Clients) -> None:
    def finish() -> None:
        clients.server.server.broker.turn._reading_seconds = 1.0
        read(clients.server, clients.holder, to_all(clients.holder) + MISSING)
        session = clients.session
        assert session._states.work is Work.IDLE
        session.finish()
        assert session._states.work is Work.IDLE
        assert not session.channels

    clients.server.call(finish)
    assert clients.holder.expect(Channel.Close).reply_code == 404
    clients.one_in_each()
    clients.all_are_back()


class Scenario(NamedTuple):
    """What happens, and the entries of the tables that it must take."""

    happens: Callable[[Clients], None]
    stages: set[tuple[Stage, StageEvent]]
    works: set[tuple[Work, WorkEvent]]


SCENARIOS = [
    Scenario(
        an_error_closes_a_channel,
        {(Stage.HANDSHAKE, StageEvent.OPENED)},
        {(Work.IDLE, WorkEvent.BEGIN_CLOSE), (Work.CLOSING_CHANNEL, WorkEvent.END)},
    ),
    Scenario(
        the_connection_fails_while_a_channel_closes,
        {
            (Stage.OPEN, StageEvent.RELEASE),
            (Stage.RELEASING, StageEvent.RELEASED),
            # Our close was sent, and the client confirms it.
            (Stage.RELEASED, StageEvent.RELEASE),
            (Stage.RELEASED, StageEvent.LOST),
            (Stage.GONE, StageEvent.RELEASE),
        },
        {(Work.CLOSING_CHANNEL, WorkEvent.HAND_OVER)},
    ),
    Scenario(
        the_connection_fails_before_a_channel_closes,
        {(Stage.OPEN, StageEvent.RELEASE)},
        set(),
    ),
    Scenario(
        the_connection_fails_while_a_publish_is_under_way,
        {(Stage.OPEN, StageEvent.RELEASE)},
        {(Work.IDLE, WorkEvent.BEGIN), (Work.HANDLING, WorkEvent.END)},
    ),
    Scenario(both_sides_close, {(Stage.RELEASING, StageEvent.RELEASE)}, set()),
    Scenario(the_server_closes_a_client_that_closes, set(), set()),
    Scenario(the_server_closes_a_client_whose_connection_has_failed, set(), set()),
    Scenario(
        the_client_vanishes_while_its_session_ends,
        {
            (Stage.RELEASING, StageEvent.LOST),
            (Stage.LOST_RELEASING, StageEvent.RELEASE),
            (Stage.LOST_RELEASING, StageEvent.RELEASED),
        },
        set(),
    ),
    Scenario(
        the_client_vanishes_while_a_publish_is_under_way,
        {(Stage.OPEN, StageEvent.LOST), (Stage.LOST_OPEN, StageEvent.RELEASE)},
        {(Work.HANDLING, WorkEvent.END)},
    ),
    Scenario(
        the_client_vanishes_while_its_reply_waits_for_the_disk,
        {(Stage.OPEN, StageEvent.LOST), (Stage.LOST_OPEN, StageEvent.RELEASE)},
        {(Work.HANDLING, WorkEvent.END)},
    ),
    Scenario(
        the_client_vanishes_while_a_channel_closes,
        {(Stage.OPEN, StageEvent.LOST), (Stage.LOST_OPEN, StageEvent.RELEASE)},
        {(Work.CLOSING_CHANNEL, WorkEvent.END)},
    ),
    Scenario(
        a_login_fails_while_a_publish_is_under_way,
        {(Stage.HANDSHAKE, StageEvent.RELEASE)},
        {(Work.HANDLING, WorkEvent.END)},
    ),
    Scenario(
        a_client_vanishes_before_its_login,
        {(Stage.HANDSHAKE, StageEvent.LOST), (Stage.LOST_HANDSHAKE, StageEvent.RELEASE)},
        set(),
    ),
    Scenario(
        a_client_vanishes_while_a_back_end_decides_about_its_virtual_host,
        {(Stage.HANDSHAKE, StageEvent.LOST), (Stage.LOST_HANDSHAKE, StageEvent.RELEASE)},
        {(Work.HANDLING, WorkEvent.WAIT), (Work.BLOCKED, WorkEvent.WAIT_ENDED)},
    ),
    Scenario(
        the_server_closes_a_client_whose_virtual_host_a_back_end_decides_about,
        {(Stage.HANDSHAKE, StageEvent.LOST), (Stage.LOST_HANDSHAKE, StageEvent.RELEASE)},
        {(Work.BLOCKED, WorkEvent.WAIT_ENDED)},
    ),
    Scenario(
        a_credential_expires_before_the_virtual_host_is_open,
        {(Stage.HANDSHAKE, StageEvent.OPENED), (Stage.OPEN, StageEvent.RELEASE)},
        set(),
    ),
    Scenario(
        the_client_vanishes_with_a_new_secret,
        {(Stage.OPEN, StageEvent.LOST), (Stage.LOST_OPEN, StageEvent.RELEASE)},
        {(Work.HANDLING, WorkEvent.END)},
    ),
    Scenario(
        a_publish_waits_for_a_commit,
        set(),
        {(Work.HANDLING, WorkEvent.WAIT), (Work.BLOCKED, WorkEvent.WAIT_ENDED)},
    ),
    Scenario(
        the_server_closes_a_client_that_waits_for_a_commit,
        set(),
        {
            (Work.BLOCKED, WorkEvent.HURRY),
            (Work.HURRYING, WorkEvent.WAIT),
            (Work.HURRYING, WorkEvent.WAIT_ENDED),
            (Work.HURRYING, WorkEvent.END),
        },
    ),
    Scenario(
        the_client_vanishes_while_it_waits_for_a_commit,
        {(Stage.OPEN, StageEvent.LOST), (Stage.LOST_OPEN, StageEvent.RELEASE)},
        {(Work.BLOCKED, WorkEvent.WAIT_ENDED)},
    ),
    Scenario(
        the_rest_is_handled_at_once,
        set(),
        {
            (Work.IDLE, WorkEvent.HURRY),
            (Work.HANDLING, WorkEvent.HURRY),
            (Work.CLOSING_CHANNEL, WorkEvent.HURRY),
        },
    ),
]
LATE_ANSWERS = {
    (work, WorkEvent.WAIT_ENDED) for work in (Work.IDLE, Work.HANDLING, Work.CLOSING_CHANNEL)
}
"""A back end answers when the step that waited for it has been hurried; they change nothing."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> Iterator[Clients]:
    del seen
    cut_everywhere(monkeypatch)
    limits = Limits(refused_login_seconds=0.01)
    with ExitStack() as stack:
        server = stack.enter_context(ThreadedServer(tmp_path, limits=limits, stopwatch=Stopwatch()))
        holder, modest, reader = (stack.enter_context(connect(server.address)) for _ in range(3))
        for client in (holder, modest, reader):
            client.open_channel()
        reader.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
        for name in QUEUES:
            reader.declare(name, durable=True)
            reader.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)
        reader.declare("full", durable=True)
        for number in range(MESSAGES):
            reader.publish(b"%d" % number, "full", properties=PERSISTENT)
        while reader.ready_count("full") != MESSAGES:
            pass
        for _ in range(MESSAGES):
            holder.send(Basic.Get(queue="full"))
            answered(holder, Basic.GetOk)
            holder.receive(), holder.receive()
        commit = HeldCommit(monkeypatch)
        # A server does not stop while a commit does not end.
        stack.callback(commit.go_on)
        yield Clients(server, holder, modest, reader, commit)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.happens.__name__)
def test_others_are_served_and_nothing_is_lost(
    clients: Clients, seen: Seen, scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    limits = clients.server.call(lambda: clients.session._server.connection_limits)
    scenario.happens(clients)
    for client in (clients.holder, clients.modest, clients.reader):
        client.socket.close()
    clients.server.wait_until(lambda: not clients.server.connections)
    ended = {(Stage.GONE, Work.IDLE)}
    clients.server.wait_until(lambda: {(m.stage, m.work) for m in seen.machines} == ended)

    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert scenario.stages <= seen.stages
    assert scenario.works <= seen.works
    closing = {stage for stage, work in seen.together if work is Work.CLOSING_CHANNEL}
    assert closing <= {Stage.OPEN, Stage.LOST_OPEN}
    assert (limits.connections_of_user("guest"), limits.channels_of_user("guest")) == (0, 0)


def test_every_entry_of_the_tables_is_taken() -> None:
    stages = {(stage, event) for stage, entries in STAGES.items() for event in entries}
    works = {(work, event) for work, entries in WORKS.items() for event in entries}

    assert set().union(*(each.stages for each in SCENARIOS)) == stages
    assert set().union(*(each.works for each in SCENARIOS)) == works - LATE_ANSWERS
