"""Users and permissions of a running server: documents, restarts, changes that count at once."""

import errno
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Queue

from amqp_server.access import patterns
from amqp_server.access.passwords import PasswordHash
from amqp_server.access.user import User, deletion_note
from amqp_server.base.errors import StartupError
from amqp_server.control.client import ControlError, ask
from appendlog.files.filesystem import FileSystem
from metadata.document import encode_document
from tests.amqp_client import AmqpClient, ConnectionLostError, connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer


def add_user(
    path: Path, name: str, password: str = "secret", *tags: str, slow: bool = False
) -> None:
    octets = password.encode()
    stored = PasswordHash.of(octets) if slow else PasswordHash.quick(octets)
    ask(
        path,
        "users.add",
        name=name,
        password_hash=stored.text,
        hashing_algorithm=stored.algorithm,
        tags=list(tags),
    )


def permit(path: Path, user: str, write: str = ".*", vhost: str = "/") -> None:
    ask(path, "permissions.set", user=user, vhost=vhost, configure=".*", write=write, read=".*")


def may_log_in(server: RunningServer, user: str, password: str, vhost: str = "/") -> bool:
    try:
        with connect(server.address, user=user, password=password, vhost=vhost) as client:
            client.open_channel()
    except (ConnectionLostError, AssertionError):
        return False
    return True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data") as running:
        running.start()
        yield running


@pytest.mark.parametrize("slow", [False, True])
def test_users_and_permissions_survive_a_kill(server: RunningServer, slow: bool) -> None:
    path = server.storage_path
    add_user(path, "worker", "geheim", "monitoring", slow=slow)
    permit(path, "worker")
    server.kill()
    server.start()

    assert may_log_in(server, "worker", "geheim")
    assert not may_log_in(server, "worker", "Geheim")
    (row,) = [each for each in ask(path, "users.list") if each["name"] == "worker"]
    assert row["tags"] == ["monitoring"]
    assert "geheim" not in json.dumps(ask(path, "users.list"))


def test_the_documents_of_users_are_for_their_owner_only(server: RunningServer) -> None:
    add_user(server.storage_path, "worker")
    documents = list(server.storage_path.glob("metadata/users/*/*.json"))
    assert len(documents) == 2
    assert {each.stat().st_mode & 0o777 for each in documents} == {0o600}
    assert not any(b"secret" in each.read_bytes() for each in documents)


def test_a_deleted_user_does_not_come_back(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    ask(path, "users.delete", name="worker")
    server.kill()
    server.start()

    assert not may_log_in(server, "worker", "secret")
    assert not list(path.glob("metadata/permissions/*/worker.json"))
    with pytest.raises(ControlError, match="user 'worker' does not exist"):
        ask(path, "users.delete", name="worker")


def test_what_a_crash_left_of_a_deleted_user_gives_nobody_anything(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    server.terminate()
    (document,) = path.glob("metadata/users/*/worker.json")
    (row,) = path.glob("metadata/permissions/*/worker.json")
    # The server was killed when the user was deleted and the permissions were not.
    document.write_bytes(encode_document(deletion_note("worker")))
    server.start()

    assert not document.exists()
    assert not row.exists()
    add_user(path, "worker")
    assert not may_log_in(server, "worker", "secret")
    permit(path, "worker")
    assert may_log_in(server, "worker", "secret")


def test_without_their_documents_nobody_logs_in_and_reset_is_the_way_back(
    server: RunningServer,
) -> None:
    path = server.storage_path
    server.terminate()
    for document in path.glob("metadata/users/*/*.json"):
        document.unlink()
    server.may_fail = True
    server.start()
    assert not may_log_in(server, "guest", "guest")

    stored = PasswordHash.quick(b"again")
    ask(
        path,
        "users.reset",
        name="guest",
        password_hash=stored.text,
        hashing_algorithm=stored.algorithm,
    )
    assert may_log_in(server, "guest", "again")


def test_a_damaged_document_of_a_user_refuses_that_user_only(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    server.terminate()
    document = next(path.glob("metadata/users/*/worker.json"))
    document.write_bytes(document.read_bytes().replace(b'"tags": []', b'"tags": ["administrator"]'))
    server.may_fail = True
    server.start()

    assert not may_log_in(server, "worker", "secret")
    assert may_log_in(server, "guest", "guest")


def test_damaged_topic_permissions_allow_no_key(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    row = {"vhost": "/", "user": "worker", "exchange": "amq.topic"}
    ask(path, "topic_permissions.set", **row, write="^mine", read="^mine")
    server.terminate()
    document = next(path.glob("metadata/topic_permissions/*/worker.json"))
    document.write_bytes(document.read_bytes()[:40])
    server.may_fail = True
    server.start()

    with connect(server.address, user="worker", password="secret") as client:
        client.open_channel()
        client.publish(b"x", "other", "amq.topic")
        client.expect_channel_close(403)
        ask(path, "topic_permissions.clear", vhost="/", user="worker")
        assert not document.exists()
        client.open_channel(confirms=True)
        client.publish(b"x", "other", "amq.topic")
        client.expect_confirmed()


def test_a_user_who_comes_again_has_no_damaged_topic_permissions(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    row = {"vhost": "/", "user": "worker", "exchange": "amq.topic"}
    ask(path, "topic_permissions.set", **row, write="^mine", read="^mine")
    server.terminate()
    document = next(path.glob("metadata/topic_permissions/*/worker.json"))
    document.write_bytes(document.read_bytes()[:40])
    server.may_fail = True
    server.start()
    ask(path, "users.delete", name="worker")
    add_user(path, "worker")

    assert not document.exists()


def test_a_new_directory_gets_the_user_that_the_operator_names(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    options = ("--default-user", "ops", "--default-pass-file", str(secret), "--default-vhost", "t")
    with RunningServer(tmp_path / "data", *options) as server:
        server.start()
        assert may_log_in(server, "ops", "s3cret", "t")
        assert not may_log_in(server, "guest", "guest")
        # Later the options change nothing.
        server.terminate()
        server.options = ()
        server.start()
        assert may_log_in(server, "ops", "s3cret")
        assert not may_log_in(server, "guest", "guest")


class OneRefusal(FileSystem):
    """A disk that refuses the rename of one number, and all that follow."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.has_refused = False

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, or refuse it."""
        self.left -= 1
        if self.left < 0:
            self.has_refused = True
            raise OSError(errno.EIO, "refused")
        super().rename(source, target)


def test_wherever_the_first_start_ends_the_next_one_has_its_user(tmp_path: Path) -> None:
    for at in itertools.count():
        path = tmp_path / str(at)
        disk = OneRefusal(at)
        with suppress(StartupError), ThreadedServer(path, disk) as first:
            first.abandon()
        with ThreadedServer(path) as server, connect(server.address) as client:
            client.open_channel()
        if not disk.has_refused:
            break
    assert at > 3


def test_rabbitmqs_variables_name_the_first_user(tmp_path: Path) -> None:
    names = {"RABBITMQ_DEFAULT_USER": "ops", "RABBITMQ_DEFAULT_PASS": "pw"}
    with RunningServer(tmp_path / "data", environment=names) as server:
        server.start()
        assert may_log_in(server, "ops", "pw")
        assert not may_log_in(server, "guest", "guest")


def refused(client: AmqpClient) -> str:
    close = client.expect(Channel.Close)
    client.send(Channel.CloseOk())
    return close.reply_text


def test_a_change_counts_at_once_on_an_open_channel(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    with connect(server.address, user="worker", password="secret") as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"1", "q")
        client.expect(Basic.Ack)
        permit(path, "worker", write="^$")
        client.publish(b"2", "q")
        assert "write access to exchange 'amq.default'" in refused(client)
        permit(path, "worker", write="^amq\\.default$")
        client.open_channel(confirms=True)
        client.publish(b"3", "q")
        client.expect(Basic.Ack)
        client.publish(b"4", "k", "amq.direct")
        assert "write access to exchange 'amq.direct'" in refused(client)
        client.open_channel()
        client.call(Queue.Bind(queue="q", exchange="amq.direct", routing_key="k"), Channel.Close)


def test_what_is_taken_away_counts_at_once_on_an_open_channel(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker")
    topic = {"user": "worker", "vhost": "/", "exchange": "amq.topic"}
    with connect(server.address, user="worker", password="secret") as client:
        client.open_channel(confirms=True)
        client.publish(b"1", "no.key", "amq.topic")
        client.expect_confirmed()
        ask(path, "topic_permissions.set", **topic, write="^ok", read=".*")
        client.publish(b"2", "no.key", "amq.topic")
        assert "write access to topic 'no.key' in exchange 'amq.topic'" in refused(client)
        ask(path, "topic_permissions.clear", **topic)
        client.open_channel(confirms=True)
        client.publish(b"3", "no.key", "amq.topic")
        client.expect_confirmed()
        ask(path, "permissions.clear", user="worker", vhost="/")
        client.publish(b"4", "no.key", "amq.topic")
        assert "write access to exchange 'amq.topic'" in refused(client)


def test_batches_of_messages_are_checked_too(server: RunningServer) -> None:
    path = server.storage_path
    add_user(path, "worker")
    permit(path, "worker", write="^amq\\.(default|topic)$")
    ask(
        path,
        "topic_permissions.set",
        user="worker",
        vhost="/",
        exchange="amq.topic",
        write="^ok",
        read=".*",
    )
    with connect(server.address) as guest:
        guest.open_channel()
        guest.declare("q")
        guest.call(Queue.Bind(queue="q", exchange="amq.topic", routing_key="#"), Queue.BindOk)
        with connect(server.address, user="worker", password="secret") as client:
            client.open_channel()
            for number in range(20):
                client.publish(b"%d" % number, f"ok.{number}", "amq.topic")
            client.publish(b"secret", "no.key", "amq.topic")
            for number in range(20):
                client.publish(b"%d" % number, f"ok.late{number}", "amq.topic")
            assert "write access to topic 'no.key' in exchange 'amq.topic'" in refused(client)
            client.open_channel()
            copies = Basic.Properties(headers={"CC": ["no.copy"]})
            client.publish(b"copy", "ok.copy", "amq.topic", properties=copies)
            assert "write access to topic 'no.copy'" in refused(client)
        left = guest.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        assert left.message_count == 20


def test_a_user_id_is_the_users_own_unless_the_user_is_an_impersonator(
    server: RunningServer,
) -> None:
    path = server.storage_path
    for name, tags in (("worker", ()), ("gateway", ("impersonator",))):
        add_user(path, name, "secret", *tags)
        permit(path, name)
    forged = Basic.Properties(user_id="guest")
    with connect(server.address, user="worker", password="secret") as client:
        client.open_channel()
        client.publish(b"", "q", properties=forged)
        assert "authenticated user was 'worker'" in refused(client)
    with connect(server.address, user="gateway", password="secret") as client:
        client.open_channel(confirms=True)
        client.publish(b"", "q", properties=forged)
        client.expect(Basic.Ack)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "1 to 255 bytes"), ("x" * 256, "1 to 255 bytes"), ("guest", "already exists")],
)
def test_bad_names_of_users_are_refused(server: RunningServer, name: str, reason: str) -> None:
    with pytest.raises(ControlError, match=reason):
        add_user(server.storage_path, name)


@pytest.mark.parametrize("name", ["a\nb", "\x00", "ü" * 127, "../../x", "CON", "a b"])
def test_unusual_names_of_users_work(server: RunningServer, name: str) -> None:
    path = server.storage_path
    add_user(path, name)
    permit(path, name)
    server.kill()
    server.start()
    if "\x00" not in name:
        assert may_log_in(server, name, "secret")
    ask(path, "users.delete", name=name)
    assert [each["name"] for each in ask(path, "users.list")] == ["guest"]


def test_patterns_that_are_none_are_refused(server: RunningServer) -> None:
    with pytest.raises(ControlError, match="invalid write pattern: missing"):
        permit(server.storage_path, "guest", write="(a")
    assert ask(server.storage_path, "permissions.list")[0]["write"] == ".*"


def test_a_login_as_a_deleted_user_opens_nothing_as_the_next_user_of_that_name(
    server: RunningServer,
) -> None:
    path = server.storage_path
    add_user(path, "worker", "old")
    with AmqpClient(server.address) as client:
        tune = client.login(user="worker", password="old")
        ask(path, "users.delete", name="worker")
        add_user(path, "worker", "new")
        permit(path, "worker")
        tune_ok = frame.marshal(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        with suppress(ConnectionLostError):
            client.send_raw(tune_ok + frame.marshal(Connection.Open(virtual_host="/"), 0))
        with pytest.raises(ConnectionLostError):
            client.receive()


def test_no_pattern_that_a_command_sets_is_compiled_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, str] = {}
    make = patterns.Pattern.__init__

    def noted(self: patterns.Pattern, text: str) -> None:
        threads[text] = threading.current_thread().name
        make(self, text)

    with ThreadedServer(tmp_path) as server:
        monkeypatch.setattr(patterns.Pattern, "__init__", noted)
        add_user(tmp_path, "worker")
        permit(tmp_path, "worker", write="^only once")
        topic = {"vhost": "/", "user": "worker", "exchange": "amq.topic"}
        ask(tmp_path, "topic_permissions.set", **topic, write="^key", read="^other key")
        with connect(server.address, user="worker", password="secret") as client:
            client.open_channel()
            client.publish(b"x", "key", "only once")
            client.expect_channel_close(404)
        # The cache of patterns is that of the process.
        assert {"^only once", "^key", "^other key"} <= threads.keys()
        assert "server" not in threads.values()


def test_what_a_client_sends_while_its_password_is_checked_is_handled_after_it(
    server: RunningServer,
) -> None:
    path = server.storage_path
    add_user(path, "worker", slow=True)
    permit(path, "worker")
    with AmqpClient(server.address) as client:
        client.start(user="worker", password="secret")
        # The whole handshake at once, and a method behind it.
        client.send(Connection.TuneOk(channel_max=10, frame_max=131_072, heartbeat=0), 0)
        client.send(Connection.Open(virtual_host="/"), 0)
        client.send(Channel.Open())
        client.expect(Connection.Tune, 0)
        client.expect(Connection.OpenOk, 0)
        client.expect(Channel.OpenOk)


def test_a_client_that_goes_while_its_password_is_checked_leaves_nothing(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        users = server.server.access.users
        worker = User("worker", PasswordHash.of(b"secret"))
        server.call(lambda: users.update(worker=worker))
        for _ in range(5):
            with AmqpClient(server.address) as client:
                client.start(user="worker", password="wrong")
        server.wait_until(lambda: not server.connections)
        server.wait_until(lambda: not len(server.server.logins._line))
