"""A running server whose users an HTTP server knows: what it is asked, and who waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import aio_pika
import pika
import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.access.backends.login_rules import AskedRules
from amqp_server.access.backends.questions import Questions
from amqp_server.base.config import Limits
from amqp_server.control.client import ControlError, ask, follow
from amqp_server.control.logins import LoginChecks
from amqp_server.control.protocol import RequestActor
from appendlog.export_records import begin_record, end_record
from tests.access.backends.auth_server import AuthServer
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

LOGIN_REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with AuthServer() as running:
        yield running


@contextmanager
def serving(path: Path, auth: AuthServer, **settings: Any) -> Iterator[ThreadedServer]:  # noqa: ANN401
    with ThreadedServer(path, **{**auth.settings, **settings}) as server:
        yield server


def log_in(server: ThreadedServer, user: str = "alice", password: str = "secret") -> AmqpClient:
    return connect(server.address, user=user, password=password)


def taken(client: AmqpClient) -> bytes:
    """Return the body of the next message of the queue `q`."""
    message = client.get("q")
    assert message is not None
    return message.body


def refusal_of(client: AmqpClient) -> str:
    """Return the text with which the server closes the channel."""
    text = str(client.expect(Channel.Close).reply_text)
    client.send(Channel.CloseOk())
    return text


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_questions_are_those_of_rabbitmq(tmp_path: Path, auth: AuthServer, method: str) -> None:
    auth.answers = lambda path, _: "allow management x" if path == "/user" else "allow"
    with (
        serving(tmp_path, auth, auth_http_method=method) as server,
        log_in(server, "al ice&ü=", "p w?&ß=%") as client,
    ):
        client.open_channel(confirms=True)
        client.call(Exchange.Declare(exchange="e", exchange_type="topic"), Exchange.DeclareOk)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.call(Queue.Bind(queue="q", exchange="e", routing_key="a.b"), Queue.BindOk)
        client.publish(b"1", "a.b", "e")
        client.publish(b"2", "q")
        client.expect_confirmed()
        assert taken(client) == b"1"
    who = {"username": "al ice&ü="}
    place = {**who, "vhost": "/"}
    tags = {"tags": "management x"}

    def resource(kind: str, name: str, permission: str) -> tuple[str, str, dict[str, str]]:
        fields = {**place, "resource": kind, "name": name, "permission": permission, **tags}
        return method.upper(), "/resource", fields

    def topic(permission: str) -> tuple[str, str, dict[str, str]]:
        fields = {**place, "resource": "topic", "name": "e", "permission": permission, **tags}
        return method.upper(), "/topic", {**fields, "routing_key": "a.b"}

    assert auth.asked == [
        (method.upper(), "/user", {**who, "password": "p w?&ß=%"}),
        (method.upper(), "/vhost", {**place, "ip": "127.0.0.1", **tags}),
        resource("exchange", "e", "configure"),
        resource("queue", "q", "configure"),
        resource("queue", "q", "write"),
        resource("exchange", "e", "read"),
        topic("read"),
        resource("exchange", "e", "write"),
        topic("write"),
        resource("exchange", "amq.default", "write"),
        resource("queue", "q", "read"),
    ]


def test_only_allow_lets_a_user_in(tmp_path: Path, auth: AuthServer) -> None:
    denying: tuple[Any, ...] = (
        "deny",
        "DENY",
        "deny not today",
        "allowed",
        "",
        "yes",
        "{}",
        "allow\nallow",
        b"\xff\xfe",
        (500, b"allow"),
        (204, b""),
        (301, b"http://127.0.0.1:1/"),
        (404, b"allow"),
    )
    allowing = ("allow", "Allow", " allow \n", "allow administrator tag")
    answers = {f"user{number}": answer for number, answer in enumerate((*denying, *allowing))}
    auth.answers = lambda path, fields: answers[fields["username"]] if path == "/user" else "allow"
    with serving(tmp_path, auth) as server:
        for user, answer in answers.items():
            if answer in allowing:
                log_in(server, user).close()
            else:
                with pytest.raises(AssertionError, match="ACCESS_REFUSED"):
                    log_in(server, user)


def test_a_redirect_is_not_followed(tmp_path: Path, auth: AuthServer) -> None:
    with AuthServer() as other:
        auth.answers = lambda *_: (302, f"{other.url}/user".encode())
        with serving(tmp_path, auth) as server, pytest.raises(AssertionError):
            log_in(server)
        assert not other.asked


def test_denied_permissions_have_the_texts_of_rabbitmq(tmp_path: Path, auth: AuthServer) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        if path == "/vhost":
            return "allow" if fields["vhost"] == "/" else "deny"
        denied = ("no", "configure"), ("no", "read"), ("x", "write")
        return "deny" if (fields.get("name"), fields.get("permission")) in denied else "allow"

    auth.answers = answers
    with serving(tmp_path, auth) as server:
        ask(server.server.config.storage_path, "vhosts.add", name="other")
        with log_in(server) as client:
            for method, text in (
                (Queue.Declare(queue="no"), "configure access to queue 'no'"),
                (Basic.Get(queue="no"), "read access to queue 'no'"),
                (Queue.Bind(queue="x", exchange="e"), "write access to queue 'x'"),
            ):
                client.open_channel()
                client.send(method)
                refused = f"ACCESS_REFUSED - {text} in vhost '/' refused for user 'alice'"
                assert refusal_of(client) == refused
        with pytest.raises(
            AssertionError, match="access to vhost 'other' refused for user 'alice'"
        ):
            connect(server.address, user="alice", password="secret", vhost="other")


def test_users_of_the_server_are_not_asked_for(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
    assert not auth.asked


def test_a_wrong_password_of_a_user_of_the_server_is_asked_for(
    tmp_path: Path, auth: AuthServer
) -> None:
    auth.answers = lambda *_: "deny"
    with serving(tmp_path, auth) as server, pytest.raises(AssertionError):
        log_in(server, "guest", "wrong")
    assert auth.questions("/user") == [{"username": "guest", "password": "wrong"}]


def test_an_empty_password_is_never_asked(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server, pytest.raises(AssertionError):
        log_in(server, "alice", "")
    assert not auth.asked


def test_answers_are_remembered_for_all_connections(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server:
        for _ in range(3):
            with log_in(server) as client:
                client.open_channel(confirms=True)
                client.publish(b"x", "nowhere")
                client.expect_confirmed()
    assert [path for _, path, _ in auth.asked] == ["/user", "/vhost", "/resource"]


def test_another_password_is_another_question(tmp_path: Path, auth: AuthServer) -> None:
    auth.answers = lambda path, fields: (
        "allow" if path != "/user" or fields["password"] == "right" else "deny"
    )
    with serving(tmp_path, auth) as server:
        log_in(server, "alice", "right").close()
        with pytest.raises(AssertionError):
            log_in(server, "alice", "wrong")


def test_while_the_server_hangs_others_log_in_and_work(tmp_path: Path, auth: AuthServer) -> None:
    with (
        serving(tmp_path, auth, auth_timeout_seconds=9.0) as server,
        log_in(server) as parked,
        connect(server.address) as other,
    ):
        parked.open_channel(confirms=True)
        other.open_channel(confirms=True)
        other.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        auth.is_open.clear()
        parked.publish(b"parked", "q")
        parked.send(Queue.Declare(queue="mine"))
        auth.wait_for_question("/resource")
        hanging = threading.Thread(target=lambda: log_in(server, "bob").close())
        hanging.start()
        auth.wait_for_question("/user", 2)
        # All of this needs no answer of the server that hangs.
        for number in range(20):
            with connect(server.address) as fresh:
                fresh.open_channel()
            other.publish(b"%d" % number, "q")
            other.expect_confirmed()
            assert taken(other) == b"%d" % number
        assert auth.count("/resource") == 1
        auth.is_open.set()
        parked.expect_confirmed()
        # In their order: the declare came after the publish.
        assert parked.expect(Queue.DeclareOk).queue == "mine"
        assert taken(other) == b"parked"
        hanging.join()


def test_what_is_parked_is_denied_when_no_answer_comes(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth, auth_timeout_seconds=0.1) as server:
        with log_in(server) as client:
            client.open_channel()
            auth.is_open.clear()
            client.send(Queue.Declare(queue="q"))
            assert "configure access to queue 'q'" in refusal_of(client)
        status = ask(server.server.config.storage_path, "status")["auth_backends"]
        assert [each["name"] for each in status] == ["internal", "http"]
        assert status[1]["failed"] == 1
        assert status[1]["last_failure"] == "no answer within 0.1 s"


def test_a_passive_declare_is_denied_when_no_answer_comes(tmp_path: Path, auth: AuthServer) -> None:
    # Longer than a question that failed counts as denied.
    with serving(tmp_path, auth, auth_timeout_seconds=1.5) as server, log_in(server) as client:
        client.open_channel()
        auth.is_open.clear()
        client.send(Queue.Declare(queue="q", passive=True))
        assert "configure access to queue 'q'" in refusal_of(client)
        asked = [each["permission"] for each in auth.questions("/resource")]
        assert sorted(asked) == ["configure", "read", "write"]


def test_a_server_that_is_down_denies_and_the_log_says_why(
    tmp_path: Path, auth: AuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, auth) as server:
        auth.stop()
        with pytest.raises(AssertionError):
            log_in(server, "alice", "geheim")
        with connect(server.address) as client:
            client.open_channel()
    (line,) = [each for each in caplog.messages if "back end failed" in each]
    assert "backend=http" in line
    assert "login of user alice" in line
    assert "geheim" not in caplog.text


def test_a_parked_connection_may_go_and_its_messages_are_handled(
    tmp_path: Path, auth: AuthServer
) -> None:
    with serving(tmp_path, auth) as server, connect(server.address) as other:
        other.open_channel()
        other.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client = log_in(server)
        client.open_channel()
        auth.is_open.clear()
        client.publish(b"x", "q")
        auth.wait_for_question("/resource")
        client.socket.close()
        auth.is_open.set()
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: queue.ready_count == 1)


def test_a_client_whose_handshake_took_too_long_opens_no_virtual_host(
    tmp_path: Path, auth: AuthServer
) -> None:
    limits = Limits(handshake_seconds_max=1)
    with serving(tmp_path, auth, limits=limits) as server:
        client = AmqpClient(server.address)
        client.login(user="alice", password="secret")
        client.send(Connection.TuneOk(2047, 131072, 0), 0)
        auth.is_open.clear()
        client.send(Connection.Open(virtual_host="/"), 0)
        auth.wait_for_question("/vhost")
        client.expect_end()
        jobs = server.server.broker.turn.jobs
        server.wait_until(lambda: bool(jobs))
        auth.is_open.set()
        server.wait_until(lambda: not jobs)
        churn = server.server.broker.churn
        assert churn.connection_created == churn.connection_closed == 0
    lines = "".join(each.read_text() for each in (tmp_path / "audit").rglob("*.jsonl"))
    assert "user.authentication.success" in lines
    assert "connection.created" not in lines


def test_the_server_stops_while_a_question_is_under_way(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server:
        client = log_in(server)
        client.open_channel()
        auth.is_open.clear()
        client.send(Queue.Declare(queue="q"))
        auth.wait_for_question("/resource")
        server.stop()
        client.socket.close()


def test_a_queue_that_the_server_names_has_one_name(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server, log_in(server) as client:
        client.open_channel()
        first = client.call(Queue.Declare(queue=""), Queue.DeclareOk).queue
        second = client.call(Queue.Declare(queue=""), Queue.DeclareOk).queue
    assert first != second
    assert [each["name"] for each in auth.questions("/resource")] == [first, second]


def test_topic_permissions_are_asked_for_copies_and_while_publishing_in_rows(
    tmp_path: Path, auth: AuthServer
) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        return "deny" if fields.get("routing_key") == "secret" else "allow"

    auth.answers = answers
    with serving(tmp_path, auth) as server, log_in(server) as client:
        client.open_channel(confirms=True)
        client.call(Exchange.Declare(exchange="e", exchange_type="topic"), Exchange.DeclareOk)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.call(Queue.Bind(queue="q", exchange="e", routing_key="#"), Queue.BindOk)
        for number in range(50):
            client.publish(b"%d" % number, f"key.{number % 5}", "e")
        client.expect_confirmed()
        assert [taken(client) for _ in range(50)] == [b"%d" % n for n in range(50)]
        copied = Basic.Properties(headers={"CC": ["secret"]})
        client.publish(b"x", "key.0", "e", properties=copied)
        assert "write access to topic 'secret' in exchange 'e'" in refusal_of(client)


def test_a_right_that_ends_while_a_row_waits_does_not_count_for_the_rest_of_it(
    tmp_path: Path, auth: AuthServer
) -> None:
    denied: set[str | None] = set()
    auth.answers = lambda _, fields: "deny" if fields.get("routing_key") in denied else "allow"
    with serving(tmp_path, auth) as server, log_in(server) as client:
        client.open_channel(confirms=True)
        client.call(Exchange.Declare(exchange="e", exchange_type="topic"), Exchange.DeclareOk)
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.call(Queue.Bind(queue="q", exchange="e", routing_key="#"), Queue.BindOk)
        for _ in range(2):
            # One by one: a frame that comes again is remembered as allowed.
            client.publish(b"0", "known", "e")
            client.expect_confirmed()
        asked = auth.count("/topic")
        auth.is_open.clear()
        row = [
            client.publish_octets(Basic.Publish(0, "e", key), body, Basic.Properties())
            for body, key in ((b"1", "known"), (b"2", "new"), (b"3", "known"))
        ]
        client.send_raw(b"".join(row))
        auth.wait_for_question("/topic", asked + 1)
        (channel,) = server.connections[0].channels
        rules = cast("AskedRules", channel.client.rights.rules)
        denied.add("known")
        # As when the time is over for which the answers count.
        server.call(rules._questions._known.clear)
        server.call(rules._outdate)
        auth.is_open.set()
        while isinstance(answer := client.receive()[1], Basic.Ack):
            pass
        assert isinstance(answer, Channel.Close)
        assert "write access to topic 'known' in exchange 'e'" in str(answer.reply_text)
        client.open_channel(2)
        bodies = []
        while (message := client.get("q", channel=2)) is not None:
            bodies.append(message.body)
        assert bodies == [b"0", b"0", b"1", b"2"]


def test_a_user_id_must_be_the_user_unless_a_tag_allows_another(
    tmp_path: Path, auth: AuthServer
) -> None:
    auth.answers = lambda path, fields: (
        "allow impersonator" if path == "/user" and fields["username"] == "boss" else "allow"
    )
    with serving(tmp_path, auth) as server:
        for user, text in (("boss", ""), ("alice", "authenticated user was 'alice'")):
            with log_in(server, user) as client:
                client.open_channel(confirms=True)
                client.publish(b"x", "q", properties=Basic.Properties(user_id="carol"))
                if text:
                    assert text in refusal_of(client)
                else:
                    client.expect_confirmed()


def test_the_guest_of_another_back_end_comes_from_this_machine_only(
    tmp_path: Path, auth: AuthServer
) -> None:
    with serving(tmp_path, auth) as server:
        path = server.server.config.storage_path
        with pytest.raises(ControlError, match="User can only log in via localhost"):
            ask(path, "logins.check", user="guest", password="other", peer_host="10.0.0.1")
        found = ask(path, "logins.check", user="guest", password="other", peer_host="127.0.0.1")
        assert found["login"]


def test_a_known_login_does_not_wait_for_a_back_end_that_hangs(
    tmp_path: Path, auth: AuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        return "deny" if fields["username"] == "guest" else "allow management"

    auth.answers = answers
    with serving(tmp_path, auth, auth_backends="http,internal") as server:
        path = server.server.config.storage_path
        guest = {"user": "guest", "password": "guest", "peer_host": "127.0.0.1"}
        assert ask(path, "logins.known", **guest) is None
        accepted = ask(path, "logins.check", **guest)
        assert ask(path, "logins.known", **guest) == accepted
        # The answer has ceased to count: a new one is asked for, and does not come.
        monkeypatch.setattr(Questions, "known", lambda *_: None)
        auth.is_open.clear()
        asked = auth.count("/user")
        assert ask(path, "logins.known", **guest) == accepted
        auth.wait_for_question("/user", asked + 1)
        assert ask(path, "logins.known", **{**guest, "password": "wrong"}) is None
        auth.is_open.set()


def test_a_known_user_of_a_back_end_is_told_with_what_is_known(
    tmp_path: Path, auth: AuthServer
) -> None:
    auth.answers = lambda path, _: "allow management" if path == "/user" else "allow"
    with serving(tmp_path, auth) as server:
        path = server.server.config.storage_path
        alice = {"user": "alice", "password": "x", "peer_host": "127.0.0.1"}
        accepted = ask(path, "logins.check", **alice)
        assert ask(path, "logins.known", **alice) == accepted
        # A user of the server with this name is one of whom nothing is known.
        ask(path, "users.add", name="alice", **ask(path, "passwords.hash", password="y"), tags=[])
        assert ask(path, "logins.known", **alice) is None
        assert ask(path, "logins.check", **alice) == accepted
        assert ask(path, "logins.known", **alice) == accepted
        ask(
            path, "users.change_password", name="alice", **ask(path, "passwords.hash", password="x")
        )
        assert ask(path, "logins.known", **alice) is None
        assert "login" not in ask(path, "logins.check", **alice)
        ask(path, "users.delete", name="alice")
        assert ask(path, "logins.check", **alice) == accepted
        assert ask(path, "logins.known", **alice) == accepted
        ask(path, "vhosts.add", name="new")
        auth.is_open.clear()
        assert ask(path, "logins.known", **alice) is None
        auth.is_open.set()
        assert ask(path, "logins.check", **alice)["vhosts"] == ["/", "new"]


def test_requests_for_such_users_have_their_rights(tmp_path: Path, auth: AuthServer) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        if path == "/user":
            return "allow management"
        return "deny" if fields.get("name") == "no" or fields["vhost"] == "closed" else "allow"

    auth.answers = answers
    with serving(tmp_path, auth) as server:
        path = server.server.config.storage_path
        ask(path, "vhosts.add", name="closed")
        ask(path, "vhosts.add", name="open")
        found = ask(path, "logins.check", user="alice", password="x", peer_host="127.0.0.1")
        assert found["name"] == "alice"
        assert found["tags"] == ["management"]
        assert found["vhosts"] == ["/", "open"]
        actor = {"user": "alice", "peer": "127.0.0.1:1", "login": found["login"]}

        def declare(name: str, vhost: str = "/", **other: str) -> Any:  # noqa: ANN401
            arguments = {
                "vhost": vhost,
                "name": name,
                "durable": True,
                "auto_delete": False,
                "arguments": {},
            }
            asking = RequestActor(**{**actor, **other})
            return follow(path, "queues.declare", arguments, lambda _: None, asking)

        assert declare("yes")["created"]
        for arguments, text in (
            ({"name": "no"}, "configure access to queue 'no'"),
            ({"name": "q", "vhost": "closed"}, "access to vhost 'closed' refused"),
            ({"name": "q", "login": "made up"}, "must log in again"),
            ({"name": "q", "user": "guest"}, "must log in again"),
            # Without the key it is one of the server's own users, and there is none.
            ({"name": "q", "login": ""}, "access to vhost '/' refused"),
        ):
            with pytest.raises(ControlError, match=text):
                declare(**arguments)


def test_such_a_user_has_no_right_of_a_namesake_among_the_users_of_the_server(
    tmp_path: Path, auth: AuthServer
) -> None:
    def answers(path: str, fields: dict[str, str]) -> str:
        if path == "/user":
            return "allow administrator" if fields["password"] == "theirs" else "deny"
        return "deny" if fields.get("vhost") == "closed" else "allow"

    auth.answers = answers
    with serving(tmp_path, auth) as server:
        path = server.server.config.storage_path
        ask(path, "vhosts.add", name="closed")
        ask(path, "users.set", name="alice", password="ours", tags=["administrator"])
        rights = dict.fromkeys(("configure", "write", "read"), ".*")
        ask(path, "permissions.set", vhost="closed", user="alice", **rights)
        record = begin_record(path, "lake", {"vhost": "closed"}, 1)
        row = {"vhost": "closed", "queue": "q", "incarnation": "", "status": "exported"}
        end_record(path, record, [{**row, "end": 2, "rows": 2}], 0, 9)
        queue = {"vhost": "closed", "durable": True, "auto_delete": False, "arguments": {}}
        ask(path, "queues.declare", **queue, name="q")
        ask(path, "queues.declare", **queue, name="q2")
        moved = {"vhost": "closed", "queue": "q", "to": "q2"}
        follow(path, "queues.move", moved, lambda _: None)

        def asked(password: str, command: str, **arguments: Any) -> Any:  # noqa: ANN401
            found = ask(
                path, "logins.check", user="alice", password=password, peer_host="127.0.0.1"
            )
            actor = RequestActor("alice", "127.0.0.1:1", found.get("login", ""))
            return follow(path, command, arguments, lambda _: None, actor)

        value = {"src-uri": "amqp:///closed", "src-queue": "q", "dest-uri": "amqp:///closed"}
        shovel = {
            "vhost": "/",
            "component": "shovel",
            "name": "s",
            "value": {"value": {**value, "dest-queue": "q2"}},
        }
        assert len(asked("ours", "exports.list")["exports"]) == 1
        assert asked("ours", "transfers.list")["total"] == 1
        assert asked("theirs", "exports.list")["exports"] == []
        assert asked("theirs", "transfers.list")["total"] == 0
        with pytest.raises(ControlError, match='"alice" may not connect to vhost "closed"'):
            asked("theirs", "parameters.set", **shovel)
        assert asked("ours", "parameters.set", **shovel) is True


def test_a_check_that_is_given_up_leaves_nothing_behind(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as running:
        login = {"user": "alice", "password": "x", "peer_host": "127.0.0.1"}
        path = running.server.config.storage_path
        ask(path, "logins.check", **login)
        ask(path, "vhosts.add", name="new")
        asked = auth.count("/vhost")
        auth.is_open.clear()

        async def give_up() -> list[str]:
            server = running.server
            broker = server.broker
            handshake_factory = server.context.handshake_factory
            checks = LoginChecks(
                server.config, handshake_factory, server.access, broker.audit, broker.auth_attempts
            )
            check = asyncio.ensure_future(checks.check(**login))
            while auth.count("/vhost") == asked:  # noqa: ASYNC110 - another thread counts
                await asyncio.sleep(0.001)
            check.cancel()
            await asyncio.wait([check])
            await asyncio.sleep(0)
            return [text for text in map(repr, asyncio.all_tasks()) if "_vhosts_of" in text]

        assert running.run(give_up) == []


def test_a_login_is_recorded_with_its_back_end(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server:
        log_in(server).close()
    lines = "".join(each.read_text() for each in (tmp_path / "audit").rglob("*.jsonl"))
    assert '"backend":"http"' in lines.replace('": "', '":"')


def test_list_users_shows_the_users_of_the_server_only(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server, log_in(server):
        rows = ask(server.server.config.storage_path, "users.list")
        assert [each["name"] for each in rows] == ["guest"]


def test_pika_works(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth, auth_backends="http") as server:
        host, port = server.address
        credentials = pika.PlainCredentials("alice", "secret")
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(host, port, credentials=credentials)
        )
        channel = connection.channel()
        channel.confirm_delivery()
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", name, b"hello", mandatory=True)
        assert channel.basic_get(name, auto_ack=True)[2] == b"hello"
        connection.close()
        auth.answers = lambda *_: "deny"
        # The server's own users count only where `internal` is named.
        with pytest.raises(AssertionError):
            log_in(server, "guest", "guest")


async def test_aio_pika_works(tmp_path: Path, auth: AuthServer) -> None:
    with serving(tmp_path, auth) as server:
        host, port = server.address
        connection = await aio_pika.connect(f"amqp://alice:secret@{host}:{port}/")
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "q")
            message = await queue.get()
            assert message.body == b"hello"


def test_a_refused_login_is_answered_as_by_rabbitmq(tmp_path: Path, auth: AuthServer) -> None:
    auth.answers = lambda *_: "deny because"
    with serving(tmp_path, auth) as server, AmqpClient(server.address) as client:
        client.start(user="alice", password="secret")
        close = client.expect(Connection.Close, 0)
        assert close.reply_code == 403
        assert str(close.reply_text).startswith(LOGIN_REFUSED)
