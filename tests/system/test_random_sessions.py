"""Hostile clients at random: whatever they send, and whenever they or the server end a session.

Each round, some clients send frames in any order, do not read, do not answer, half-close or reset.
Between these, the server closes connections and channels, deletes a virtual host and a user, begins
and ends alarms, and lets credentials expire. Back ends answer late. Slices are one step long. A
witness publishes and consumes beside them.

Afterwards every session has ended, the server keeps nothing of it, no error is logged, and the
witness has all of its messages.

`SESSION_ROUNDS` sets the number of rounds, `SESSION_SEED` the seed of the first: a round that fails
is repeated with its own seed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from weakref import WeakSet

import pytest
from pamqp import body, frame, header, heartbeat
from pamqp.base import Frame
from pamqp.commands import Basic, Channel, Confirm, Connection, Queue, Tx

from amqp_server.access.passwords import PasswordHash
from amqp_server.access.permissions import FULL, Right
from amqp_server.access.user import User
from amqp_server.base.limits import Limits
from amqp_server.broker.rights import AnswerAwaited, Rights
from amqp_server.connections import client_timeouts, parked_publishes
from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.connections.session.client_session import ClientSession
from amqp_server.connections.session.session_machine import Stage, Work
from amqp_server.control.connections import close
from amqp_server.control.protocol import ControlError
from amqp_server.protocol.connection_machine import ConnectionState
from amqp_server.protocol.errors import PreconditionFailed
from tests.amqp_client import PERSISTENT, PROTOCOL_HEADER, FrameReader, frame_octets
from tests.cutting import cut_everywhere
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

ROUNDS: Final = int(os.environ.get("SESSION_ROUNDS", "12"))
SEED: Final = int(os.environ.get("SESSION_SEED", "1"))
CLIENTS: Final = 5
ACTIONS: Final = 90
QUEUES: Final = [f"q{number}" for number in range(4)]
PASSWORD: Final = "secret"


class Peer(asyncio.Protocol):
    """One client, which sends what it is asked to.

    Args:
        answers: Whether it confirms closes of the server.

    Attributes:
        received: Methods that have come, by name.
        bodies: Bodies that have come.
        confirmed: Highest tag that the server has confirmed.
    """

    transport: asyncio.Transport

    def __init__(self, *, answers: bool = True) -> None:
        self.received: list[Frame] = []
        self.bodies: list[bytes] = []
        self.confirmed = 0
        self._answers = answers
        self._reader = FrameReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Take frames; confirm closes."""
        for channel, value in self._reader.feed(data):
            if isinstance(value, body.ContentBody):
                self.bodies.append(value.value)
            if isinstance(value, Basic.Ack | Basic.Nack):
                assert value.delivery_tag is not None
                self.confirmed = max(self.confirmed, value.delivery_tag)
            if isinstance(value, Frame):
                self.received.append(value)
            if self._answers and isinstance(value, Connection.Close):
                self.send(Connection.CloseOk(), 0)
            if self._answers and isinstance(value, Channel.Close):
                self.send(Channel.CloseOk(), channel)

    def send(self, value: Frame, channel: int = 1) -> None:
        """Send a method."""
        self.write(frame.marshal(value, channel))

    def write(self, octets: bytes) -> None:
        """Send octets, unless this side is closed."""
        if not self.transport.is_closing() and self.transport.can_write_eof():
            try:
                self.transport.write(octets)
            except RuntimeError:
                # It is half-closed.
                return


def publish(queue: str, octets: bytes, channel: int, exchange: str = "") -> bytes:
    """Return the frames of a publish."""
    method = Basic.Publish(exchange=exchange, routing_key=queue, mandatory=True)
    head = header.ContentHeader(0, len(octets), PERSISTENT)
    frames = (method, head, body.ContentBody(octets))
    return b"".join(frame.marshal(each, channel) for each in frames)


def handshake(random: Random) -> list[bytes]:
    """Return the parts of a login, of which some are wrong."""
    user, password = random.choice(
        [("guest", "guest"), ("u", PASSWORD), ("u", PASSWORD), ("u", "wrong")]
    )
    flags = {
        "authentication_failure_close": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
    }
    capabilities = {name: random.random() < 0.5 for name in flags}
    properties: Any = {"capabilities": capabilities}
    start_ok = Connection.StartOk(properties, "PLAIN", f"\0{user}\0{password}", "en_US")
    return [
        PROTOCOL_HEADER,
        frame.marshal(start_ok, 0),
        frame.marshal(
            Connection.TuneOk(100, random.choice([4096, 131072]), random.choice([0, 1])), 0
        ),
        frame.marshal(Connection.Open(virtual_host=random.choice(["/", "v", "v"])), 0),
        frame.marshal(Channel.Open(), 1),
        frame.marshal(Channel.Open(), 2),
    ]


def anything(random: Random) -> bytes:
    """Return frames of any kind."""
    channel = random.choice([1, 1, 1, 2, 2, 3])
    queue = random.choice(QUEUES)
    methods: list[tuple[Frame, int]] = [
        (Channel.Open(), channel),
        (Channel.Close(200, "", 0, 0), channel),
        (Channel.CloseOk(), channel),
        (Channel.Flow(active=True), channel),
        (Queue.Declare(queue=queue, durable=True), channel),
        (Queue.Declare(queue=queue, durable=True), channel),
        (Queue.Declare(queue=f"x{random.randrange(4)}", exclusive=True), channel),
        (Queue.Declare(queue=f"a{random.randrange(4)}", auto_delete=True), channel),
        (Queue.Declare(queue="missing", passive=True), channel),
        (Queue.Bind(queue=queue, exchange="amq.fanout"), channel),
        (Queue.Delete(queue=queue), channel),
        (Queue.Purge(queue=queue), channel),
        (Basic.Get(queue=queue), channel),
        (Basic.Consume(queue=queue, no_ack=random.random() < 0.3), channel),
        (Basic.Consume(queue=f"a{random.randrange(4)}"), channel),
        (Basic.Qos(prefetch_count=2), channel),
        (Basic.Ack(delivery_tag=random.choice([0, 1, 9]), multiple=True), channel),
        (Basic.Nack(delivery_tag=0, multiple=True, requeue=True), channel),
        (Basic.Recover(requeue=True), channel),
        (Confirm.Select(), channel),
        (Tx.Select(), channel),
        (Tx.Commit(), channel),
        (Tx.Commit(), channel),
        (Tx.Rollback(), channel),
        (Connection.UpdateSecret("new", "test"), 0),
        (Connection.Close(200, "", 0, 0), 0),
        (Connection.CloseOk(), 0),
    ]
    kind = random.random()
    if kind < 0.60:
        return frame.marshal(*random.choice(methods[:-2] if random.random() < 0.8 else methods))
    if kind < 0.85:
        exchange = random.choice(["", "", "amq.fanout", "missing"])
        return publish(queue, b"m" * random.choice([1, 300]), channel, exchange) * random.choice(
            [1, 1, 5]
        )
    if kind < 0.9:
        return frame.marshal(heartbeat.Heartbeat(), 0)
    if kind < 0.96:
        octets = publish(queue, b"m" * 300, channel)
        return octets[: random.randrange(len(octets))]
    return random.choice(
        [
            frame_octets(8, 1, b""),
            frame_octets(9, 0, b"\xff"),
            frame_octets(1, channel, b"\x00\x63\x00\x01"),
            frame_octets(1, channel, b"\x00\x3c\x00\x28", end=0),
            frame_octets(3, channel, b"body"),
        ]
    )


async def ticks(count: int) -> None:
    """Let the loop run some times."""
    for _ in range(count):
        await asyncio.sleep(0)


class LateBackEnds:
    """Lets decisions about logins and permissions take time, and credentials expire.

    Attributes:
        random: Decides; None: everything is known at once.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random: Random | None = None
        self._expires: dict[PeerAuthenticator, float] = {}
        self._login, self._check = PeerAuthenticator.login, PeerAuthenticator.check_vhost
        self._known = Rights._known
        # Functions, so that they become methods of the classes.
        monkeypatch.setattr(PeerAuthenticator, "login", lambda *args: self.login(*args))
        monkeypatch.setattr(PeerAuthenticator, "check_vhost", lambda *args: self.check(*args))
        monkeypatch.setattr(PeerAuthenticator, "renew", lambda *args: self.renew(*args))
        monkeypatch.setattr(PeerAuthenticator, "expires_seconds", property(self._expires.get))
        monkeypatch.setattr(Rights, "_known", lambda *args: self.known(*args))

    def login(self, peer: PeerAuthenticator, user: str, password: bytes) -> bool | Awaitable[bool]:
        """Decide about a login."""
        random = self.random
        if random is None:
            return self._login(peer, user, password)
        if random.random() < 0.3:
            self._expires[peer] = time.time() + random.choice([-1, 0.002, 0.01, 0.05])
        if random.random() < 0.5:
            return self._login(peer, user, password)

        async def decide() -> bool:
            await ticks(random.randrange(20))
            found = self._login(peer, user, password)
            return found if isinstance(found, bool) else await found

        return decide()

    def check(self, peer: PeerAuthenticator, user: str, vhost: str) -> None:
        """Check that a user may open a virtual host."""
        self._await_answer(0.5)
        self._check(peer, user, vhost)

    def known(self, rights: Rights, right: Right, what: str, ask: Callable[[], bool]) -> bool:
        """Return whether a user has a right."""
        if rights._user:
            self._await_answer(0.2)
        return self._known(rights, right, what, ask)

    def _await_answer(self, share: float) -> None:
        if self.random is not None and self.random.random() < share:
            answer = asyncio.ensure_future(ticks(self.random.randrange(12)))
            raise AnswerAwaited("not known yet", answer)

    def renew(
        self, peer: PeerAuthenticator, _secret: bytes, _vhost: str, _reason: str
    ) -> Awaitable[str] | None:
        """Take a new secret, or refuse it."""
        random = self.random
        if random is None or random.random() < 0.3:
            return None

        async def decide() -> str:
            await ticks(random.randrange(20))
            self._expires[peer] = time.time() + random.choice([-1, 0.01, 60])
            return random.choice(["", "", "refused"])

        return decide()


class Storm:
    """The rounds of one server."""

    def __init__(self, server: ThreadedServer, back_ends: LateBackEnds) -> None:
        self.server = server
        self.parts = server.server
        self.back_ends = back_ends
        self.sessions: WeakSet[ClientSession] = WeakSet()
        self.published = 0
        self.changes: set[asyncio.Task[None]] = set()
        self.witness: Peer

    @property
    def strangers(self) -> list[ClientConnection]:
        """The connections of all but the witness."""
        mine = self.witness.transport.get_extra_info("sockname")
        name = f"{mine[0]}:{mine[1]} "
        return [each for each in self.server.connections if not each.name.startswith(name)]

    async def begin(self) -> None:
        """Connect the witness; make what the strangers use."""
        await self.parts.alarms.look()
        await self.parts.vhost_changes.create("v")
        await self.make_user()
        self.witness = await self.connect(answers=True)
        for octets in (
            PROTOCOL_HEADER,
            frame.marshal(Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), 0),
            frame.marshal(Connection.TuneOk(100, 131072, 0), 0),
            frame.marshal(Connection.Open(virtual_host="/"), 0),
            frame.marshal(Channel.Open(), 1),
            frame.marshal(Queue.Declare(queue="w", durable=True), 1),
            frame.marshal(Confirm.Select(), 1),
            frame.marshal(Basic.Consume(queue="w", no_ack=True), 1),
        ):
            self.witness.write(octets)
        await self.until(lambda: any(isinstance(e, Basic.ConsumeOk) for e in self.witness.received))

    async def make_user(self) -> None:
        """Make the user of the strangers."""
        access = self.parts.access
        if "u" not in access.users:
            await access.add_user(User("u", PasswordHash.quick(PASSWORD.encode())))
        for vhost in ("/", "v"):
            if vhost in self.parts.broker.vhosts:
                await access.set_permissions(vhost, "u", FULL)

    async def connect(self, *, answers: bool) -> Peer:
        _, peer = await asyncio.get_running_loop().create_connection(
            lambda: Peer(answers=answers), *self.server.address
        )
        return peer

    async def until(self, is_reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG_SECONDS):
            while not is_reached():  # noqa: ASYNC110 - any state, so there is no event
                await asyncio.sleep(0.001)

    def change(self, what: Awaitable[object]) -> None:
        """Begin a change of the server; refusals do not matter."""

        async def carry_out() -> None:
            try:
                await what
            except (ControlError, LookupError, ValueError):
                return

        task = asyncio.ensure_future(carry_out())
        self.changes.add(task)

    def meddle(self, random: Random) -> None:
        """Do something to the strangers, as an operator, a timer or a fault would."""
        parts, strangers = self.parts, self.strangers
        kind = random.randrange(12)
        if kind <= 2 and strangers:
            name = random.choice(strangers).name
            self.change(close(parts.connections, parts.broker.turn, name, "test"))
        elif kind == 3 and strangers:
            random.choice(strangers).abandon("test")
        elif kind == 4 and strangers:
            random.choice(strangers).cut_off("test")
        elif kind in (5, 6):
            parts.alarms.force(random.choice(["memory", "disk"]), is_on=kind == 5)
        elif kind == 7:
            for _ in range(random.randrange(12)):
                parts.context.heartbeats.tick()
        elif kind in (8, 9):
            for each in strangers:
                session = each._session
                if session is not None and session.channels:
                    number = random.choice(list(session.channels))
                    session.close_channel(number, PreconditionFailed("timed out"))
                    break
        elif kind == 10 and not self.changes:
            self.change(self.replace_vhost())
        elif kind == 11 and not self.changes:
            self.change(self.replace_user())

    async def replace_vhost(self) -> None:
        await self.parts.vhost_changes.delete("v")
        await self.parts.vhost_changes.create("v")
        await self.make_user()

    async def replace_user(self) -> None:
        await self.parts.access.delete_user("u")
        await self.make_user()

    async def round(self, seed: int) -> None:
        """Disturb the server; then look whether all that is left of it ends."""
        await self.end(await self.disturb(seed))

    async def leave_behind(self) -> None:
        """Disturb the server, which is about to stop; the clients end when it has closed them."""
        peers = await self.disturb(SEED)

        async def end() -> None:
            while self.server.connections:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)
            for peer in (*peers, self.witness):
                # Those that do not read would not see the end.
                peer.transport.abort()

        self.changes.add(asyncio.ensure_future(end()))

    async def disturb(self, seed: int) -> list[Peer]:
        """Let clients come and do anything; return them."""
        random = Random(seed)
        self.back_ends.random = random
        peers: list[Peer] = []
        for _ in range(CLIENTS):
            peer = await self.connect(answers=random.random() < 0.6)
            parts = handshake(random)
            if random.random() < 0.7:
                peer.write(b"".join(parts))
            else:
                for part in parts[: random.randrange(1, len(parts) + 1)]:
                    peer.write(part)
                    await ticks(random.randrange(8))
            peers.append(peer)
        await ticks(random.choice([0, 5, 40]))
        for _ in range(ACTIONS):
            self.note_sessions()
            self.act(random, random.choice(peers))
            await ticks(random.choice([0, 0, 1, 3, 12]))
        self.note_sessions()
        return peers

    def act(self, random: Random, peer: Peer) -> None:
        """Let one client, the server or the witness do something."""
        kind = random.random()
        if kind < 0.75:
            peer.write(b"".join(anything(random) for _ in range(random.choice([1, 1, 2, 6]))))
        elif kind < 0.78:
            self.half_close(peer)
        elif kind < 0.80:
            peer.transport.abort()
        elif kind < 0.86:
            if not peer.transport.is_closing():
                (peer.transport.pause_reading if kind < 0.83 else peer.transport.resume_reading)()
        elif kind < 0.94:
            self.meddle(random)
        else:
            self.published += 1
            self.witness.write(publish("w", b"%d" % self.published, 1))

    @staticmethod
    def half_close(peer: Peer) -> None:
        if not peer.transport.is_closing():
            peer.transport.write_eof()

    def note_sessions(self) -> None:
        for each in self.server.connections:
            if each._session is not None:
                self.sessions.add(each._session)

    def has_ended(self, connection: ClientConnection) -> bool:
        """Whether a connection has begun to end."""
        session = connection._session
        state = None if session is None else session.handshake.state
        return connection._is_ending or state in (ConnectionState.CLOSING, ConnectionState.CLOSED)

    async def end(self, peers: list[Peer]) -> None:
        parts = self.parts
        for resource in ("memory", "disk"):
            parts.alarms.force(resource, is_on=False)
        while self.changes:
            await asyncio.wait(self.changes)
            for task in self.changes:
                task.result()
            self.changes.clear()
        # Sessions that the server or the client has ended need no further help of the client.
        try:
            await self.until(lambda: not any(map(self.has_ended, self.strangers)))
        except TimeoutError:
            raise AssertionError([self.describe(each) for each in self.strangers]) from None
        self.note_sessions()
        for peer in peers:
            peer.transport.abort()
        self.back_ends.random = None
        try:
            await self.until(lambda: not self.strangers)
            await self.until(lambda: len(self.witness.bodies) == self.published)
            await self.until(lambda: self.witness.confirmed == self.published)
            await self.until(self.is_clean)
        except TimeoutError:
            raise AssertionError(self.left()) from None
        try:
            # Replies may still wait for the disk.
            await self.until(lambda: not self.kept())
        except TimeoutError:
            raise AssertionError(f"sessions that are gone are kept: {self.kept()}") from None

    def describe(self, connection: ClientConnection) -> object:
        session = connection._session
        return (
            connection.name,
            connection._is_ending,
            connection._pauses,
            connection._timeouts._timer,
            session and (session._states.stage, session._states.work, session.handshake.state),
        )

    def kept(self) -> list[str]:
        """Return the names of sessions that are gone and still in memory."""
        if len(self.sessions) > 1:
            gc.collect()
        return [each.name for each in self.sessions if each.name != self.witness_name]

    def left(self) -> dict[str, object]:
        """Return what the server keeps beside the witness; all of it is empty after a round."""
        parts = self.parts
        broker, limits = parts.broker, parts.context.connection_limits
        return {
            "strangers": [self.describe(each) for each in self.strangers],
            "deliveries": self.published - len(self.witness.bodies),
            "confirms": self.published - self.witness.confirmed,
            "sessions": [
                (each.name, each._states.stage, each._states.work)
                for each in self.sessions
                if each.name != self.witness_name
                and (each._states.stage, each._states.work) != (Stage.GONE, Work.IDLE)
            ],
            "users": [
                limits.connections_of_user("u"),
                limits.channels_of_user("u"),
                limits.connections_of_user("guest") - 1,
                limits.channels_of_user("guest") - 1,
            ],
            "vhosts": [
                broker.vhosts["/"].connection_count - 1,
                broker.vhosts["v"].connection_count,
            ],
            "exclusive": [*broker._exclusive_queues, *broker._orphaned_queues],
            "consumers": [
                (vhost.name, queue.name, len(queue.all_consumers()))
                for vhost in broker.vhosts.values()
                for queue in vhost.queues.values()
                if queue.name != "w" and queue.all_consumers()
            ],
            "bytes": [
                parts.context.parked_budget.held_bytes,
                broker.assembly_budget.held_bytes,
                broker.transaction_budget.held_bytes,
            ],
            "jobs": list(broker.turn.jobs),
            "heartbeats": len(parts.context.heartbeats),
            "lingering": len(parts.context.lingering),
        }

    @property
    def witness_name(self) -> str:
        (connection,) = set(self.server.connections) - set(self.strangers)
        return connection.name

    def is_clean(self) -> bool:
        """Whether the server keeps nothing."""
        return not any(
            any(found) if isinstance(found, list) else found for found in self.left().values()
        )


@pytest.fixture
def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storm]:
    cut_everywhere(monkeypatch)
    monkeypatch.setattr(client_timeouts, "CLOSE_SECONDS_MAX", 0.02)
    monkeypatch.setattr(client_timeouts, "PEER_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(client_timeouts, "DRAIN_SECONDS_MAX", 0.1)
    monkeypatch.setattr(parked_publishes, "CLOSE_WAIT_SECONDS", 0.02)
    back_ends = LateBackEnds(monkeypatch)
    limits = Limits(refused_login_seconds=0.01, linger_seconds_max=0.02, alarm_check_seconds=3600)
    with ThreadedServer(tmp_path, limits=limits) as server:
        storm = Storm(server, back_ends)
        server.run(storm.begin)
        yield storm


class Errors(logging.Handler):
    """Keeps the texts of errors alone: a record keeps the session that its traceback names."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text and the traceback."""
        self.texts.append(self.format(record))


@pytest.fixture
def errors() -> Iterator[Errors]:
    handler = Errors()
    loggers = [logging.getLogger(name) for name in ("amqp_server", "asyncio")]
    for each in loggers:
        # pytest keeps the records of all others.
        each.setLevel(logging.ERROR)
        each.addHandler(handler)
    yield handler
    for each in loggers:
        each.removeHandler(handler)
        each.setLevel(logging.NOTSET)


def test_no_order_of_events_breaks_a_session(errors: Errors, storm: Storm) -> None:
    for seed in range(SEED, SEED + ROUNDS):
        try:
            storm.server.run(partial(storm.round, seed))
        except Exception as error:
            raise AssertionError(
                "\n".join([f"SESSION_SEED={seed} SESSION_ROUNDS=1: {error}", *errors.texts])
            ) from error
        assert errors.texts == [], f"SESSION_SEED={seed} SESSION_ROUNDS=1"


def test_a_server_stops_whatever_its_clients_do(errors: Errors, storm: Storm) -> None:
    storm.server.run(storm.leave_behind)
    storm.server.stop()

    assert errors.texts == [], f"SESSION_SEED={SEED}"
    assert not storm.server.connections
    assert {(each._states.stage, each._states.work) for each in storm.sessions} <= {
        (Stage.GONE, Work.IDLE)
    }
