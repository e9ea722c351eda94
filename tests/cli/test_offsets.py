"""`amqp-server offsets` and `OffsetsClient` against a real server."""

import time
from datetime import UTC, datetime

import pytest
from pamqp.commands import Basic

from amqp_server.control.offsets_client import ControlError, GroupPlace, OffsetsClient
from tests.amqp_client import connect
from tests.cli.stream_groups import (
    LOG,
    STREAM,
    WHERE,
    ack,
    commit,
    committed,
    expect_nothing,
    finish,
    member,
    publish,
    refuse,
    rows,
    run,
    seek,
    take,
)
from tests.servers import RunningServer


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def filled(server: RunningServer) -> RunningServer:
    """A server with ten messages in a stream."""
    publish(server, 10)
    return server


# What is shown


def test_a_groups_place_is_shown_with_all_that_is_known_of_it(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with member(filled, "g", 5, start="first") as client:
        messages = take(client, 0, 1, 2, 3, 4)
        ack(client, messages[0], messages[1], messages[3])
        take(client, 5, 6, 7)
        (row,) = rows(capsys, "show", *LOG, "--group", "g")
    assert row["lag_bytes"] > 0
    assert row["lag_seconds"] >= 0
    assert row["oldest_unacked_seconds"] >= 0
    assert row["updated_at_ns"] > 0
    assert row["checkpoint_age_seconds"] >= 0
    times = (
        *("lag_bytes", "lag_seconds", "oldest_unacked_seconds", "updated_at_ns"),
        "checkpoint_age_seconds",
    )
    assert {name: value for name, value in row.items() if name not in times} == {
        "queue": STREAM,
        "vhost": "/",
        "log_start_offset": 0,
        "log_end_offset": 10,
        "group": "g",
        "exists": True,
        "committed": 2,
        "start": 2,
        "position": 8,
        "lag": 8,
        "ready": 2,
        "unacked": 5,
        "acked_ahead": 1,
        "delivered": 8,
        "acked": 3,
        "redelivered": 0,
        "rejected": 0,
        "dropped_total": 0,
        "dropped_since_last_poll": 0,
        "members": 1,
    }
    page = run(capsys, "show", *LOG, "--group", "g")
    assert "committed               2\n" in page
    assert "lag                     8\n" in page


def test_no_commit_is_not_a_commit_of_0(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with member(filled, "g", 5, start="first") as client:
        take(client, 0, 1, 2, 3, 4)
        assert committed(capsys) is None
        assert "committed               -\n" in run(capsys, "show", *LOG, "--group", "g")
        commit(capsys, 0)
        assert committed(capsys) == 0
        assert "committed               0\n" in run(capsys, "show", *LOG, "--group", "g")


def test_groups_are_listed_by_name(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows(capsys, "list", *LOG) == []
    for group, place in (("b", 3), ("a:b/c", 0), ("日本", 10)):
        commit(capsys, place, group)
    assert run(capsys, "list", *LOG).splitlines() == [
        "   COMMITTED    POSITION         END       LAG MEMBERS   DROPPED  GROUP",
        "           0           0          10        10       0         0  a:b/c",
        "           3           3          10         7       0         0  b",
        "          10          10          10         0       0         0  日本",
    ]
    found = rows(capsys, "list", *LOG)
    assert [row["group"] for row in found] == ["a:b/c", "b", "日本"]
    assert [row["committed"] for row in found] == [0, 3, 10]


def test_the_groups_of_all_streams_are_listed(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(filled.address) as client:
        client.open_channel()
        client.declare("q")
        client.declare("a stream", arguments={"x-queue-type": "stream"})
    assert rows(capsys, "list") == []
    commit(capsys, 3, "b")
    commit(capsys, 4, "a")
    run(capsys, "commit", "--queue", "a stream", "--group", "b", "--to", "0")
    assert run(capsys, "list").splitlines() == [
        "   COMMITTED    POSITION         END       LAG MEMBERS   DROPPED  GROUP of QUEUE",
        "           0           0           0         0       0         0  b of a stream",
        f"           4           4          10         6       0         0  a of {STREAM}",
        f"           3           3          10         7       0         0  b of {STREAM}",
    ]
    found = rows(capsys, "list", "--group", "b")
    assert [(row["queue"], row["committed"]) for row in found] == [("a stream", 0), (STREAM, 3)]
    (row,) = rows(capsys, "list", *LOG, "--group", "a")
    assert row["committed"] == 4


def test_an_ordinary_queue_shows_its_own_settlement(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for number in range(6):
            client.publish(b"%d" % number, "q")
        client.expect_confirmed()
        client.consume("q", prefetch=4)
        messages = [client.expect_delivery() for _ in range(4)]
        client.send(Basic.Ack(messages[0].tag))
        client.send(Basic.Ack(messages[2].tag))
        for _ in range(2):
            client.expect_delivery()
        (row,) = rows(capsys, "show", "--queue", "q")
        client.close()
    assert (row["group"], row["committed"], row["position"]) == (None, 1, 6)
    assert (row["log_start_offset"], row["log_end_offset"], row["lag"]) == (0, 6, 5)
    assert (row["acked_ahead"], row["unacked"], row["ready"], row["members"]) == (1, 4, 0, 1)
    assert row["lag_seconds"] >= 0


# Commits


def test_a_commit_goes_on_and_the_same_again_is_fine(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commit(capsys, 4) == f"group 'g' of {WHERE}: commit 4, no commit before\n"
    assert commit(capsys, 4) == f"group 'g' of {WHERE}: commit 4, 4 before\n"
    assert commit(capsys, "latest") == f"group 'g' of {WHERE}: commit 10, 4 before\n"


def test_a_commit_that_would_go_back_is_refused_and_changes_nothing(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(capsys, 4)
    arguments = ("commit", *LOG, "--group", "g", "--to", "3")
    assert refuse(capsys, 1, *arguments) == (
        "group 'g': a commit of offset 3 would go back from 4; "
        "4 or higher is expected, and a seek goes back"
    )
    assert committed(capsys) == 4
    assert run(capsys, *arguments, "--force") == f"group 'g' of {WHERE}: commit 3, 4 before\n"
    with member(filled, "g") as client:
        take(client, *range(3, 10))


@pytest.mark.parametrize("command", ["commit", "seek"])
def test_a_place_beyond_the_end_is_refused_with_the_valid_range(
    filled: RunningServer, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    arguments = (command, *LOG, "--group", "g", "--to", "11", "--force")
    complaint = "group 'g': offset 11 is out of range; 0 to 10 is expected"
    assert refuse(capsys, 1, *arguments) == complaint
    assert rows(capsys, "list", *LOG) == []
    commit(capsys, 4)
    assert refuse(capsys, 1, *arguments) == complaint
    assert committed(capsys) == 4


def test_a_commit_beside_a_member_is_not_delivered_again(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with member(filled, "g", 2, start="first") as client:
        first, second = take(client, 0, 1)
        commit(capsys, 6)
        ack(client, first, second)
        take(client, 6, 7)
        assert committed(capsys) == 6


# Seeks


def test_a_seek_goes_anywhere(filled: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    for to, expected in (
        *(
            ("earliest", 0),
            ("latest", 10),
            ("last", 9),
            ("7", 7),
            ("-3", 7),
            ("-300", 0),
            ("-0", 10),
        ),
        *(("1h", 0), ("7D", 0), ("2001-02-03T04:05:06Z", 0), ("2001-02-03", 0)),
        ("9999-12-31T00:00:00+01:00", 10),
    ):
        assert seek(capsys, to).startswith(f"group 'g' of {WHERE}: commit {expected}, ")
        with member(filled, "g") as client:
            take(client, *range(expected, 10))
            expect_nothing(client)
            finish(client)


def test_a_seek_finds_the_first_message_of_a_time(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = time.time_ns() // 1000
    while time.time_ns() // 1000 <= moment:
        pass
    publish(filled, 3, first=10)
    text = datetime.fromtimestamp((moment + 1) / 1e6, UTC).isoformat()
    seek(capsys, text)
    assert committed(capsys) == 10


def test_a_seek_beside_members_needs_force_and_then_moves_them(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with member(filled, "g", 3, start="first") as client:
        before = take(client, 0, 1, 2)
        complaint = refuse(capsys, 1, "seek", *LOG, "--group", "g", "--to", "6")
        assert complaint == (
            f"group 'g' on {WHERE} is in use by 1 consumer: --force does it nevertheless"
        )
        assert committed(capsys) is None
        seek(capsys, 6, "--force")
        # Answers to what came before give credit, and settle nothing.
        ack(client, *before)
        take(client, 6, 7, 8)
        assert committed(capsys) == 6
        (row,) = rows(capsys, "show", *LOG, "--group", "g")
        assert (row["acked_ahead"], row["unacked"]) == (0, 3)


# Deletion


def test_a_deleted_group_begins_anew(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(capsys, 4)
    commit(capsys, 5, "other")
    deleted = run(capsys, "delete", *LOG, "--group", "g")
    assert deleted == f"deleted group 'g' of {WHERE}, which was at commit 4\n"
    assert [row["group"] for row in rows(capsys, "list", *LOG)] == ["other"]
    with member(filled, "g", start="first") as client:
        take(client, *range(10))


def test_a_group_with_members_is_deleted_with_force_only_and_they_are_told(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with member(filled, "g", 2, start="first") as client:
        first, _ = take(client, 0, 1)
        complaint = refuse(capsys, 1, "delete", *LOG, "--group", "g")
        assert complaint.startswith(f"group 'g' on {WHERE} is in use by 1 consumer")
        run(capsys, "delete", *LOG, "--group", "g", "--force")
        client.expect(Basic.Cancel)
        ack(client, first)
        expect_nothing(client)
        assert rows(capsys, "list", *LOG) == []


# Durability


def test_what_a_command_did_survives_a_kill(
    filled: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for group in ("committed", "sought", "deleted"):
        commit(capsys, 4, group)
    commit(capsys, 6, "committed")
    seek(capsys, 1, group="sought")
    run(capsys, "delete", *LOG, "--group", "deleted")
    filled.kill()
    filled.restart()
    found = {row["group"]: row["committed"] for row in rows(capsys, "list", *LOG)}
    assert found == {"committed": 6, "sought": 1}


# From Python


def test_the_same_from_python(filled: RunningServer) -> None:
    offsets = OffsetsClient(filled.storage_path)
    (place,) = offsets.commit("a:b", 4, queue=STREAM)
    assert isinstance(place, GroupPlace)
    assert (place.group, place.committed, place.committed_before) == ("a:b", 4, None)
    (place,) = offsets.seek("a:b", -2, queue=STREAM)
    assert (place.committed, place.committed_before) == (8, 4)
    with pytest.raises(ControlError) as caught:
        offsets.commit("a:b", 7, queue=STREAM)
    assert caught.value.kind == "regressing_commit"
    assert caught.value.details == {"group": "a:b", "current": 8, "attempted": 7}
    (place,) = offsets.show("a:b", queue=STREAM)
    assert (place.committed, place.lag, place.members, place.shard) == (8, 2, 0, None)
    assert offsets.list_groups(queue=STREAM)[0].group == "a:b"
    with pytest.raises(ControlError) as caught:
        offsets.seek("a:b", 11, queue=STREAM)
    assert caught.value.kind == "out_of_range"
    valid = {"log_start_offset": 0, "log_end_offset": 10}
    assert caught.value.details == {"group": "a:b", "offset": 11, **valid}
    with pytest.raises(ControlError) as caught:
        offsets.show("x", queue=STREAM)
    assert caught.value.kind == "not_found"
    with pytest.raises(ControlError) as caught:
        offsets.seek("a:b", "soon", queue=STREAM)
    assert caught.value.kind == "invalid_argument"
    assert caught.value.reason.startswith("to: 'soon' is no place in a log: write an offset")
    with pytest.raises(ControlError) as caught:
        offsets.show("a:b")
    assert caught.value.kind == "invalid_argument"
    (place,) = offsets.list_groups()
    assert (place.queue, place.group, place.committed) == (STREAM, "a:b", 8)
    with pytest.raises(ControlError) as caught:
        offsets.list_groups(vhost="nowhere")
    assert caught.value.kind == "not_found"
    with member(filled, "a:b") as client:
        take(client, 8, 9)
        with pytest.raises(ControlError) as caught:
            offsets.seek("a:b", 0, queue=STREAM)
        assert caught.value.kind == "in_use"
        assert caught.value.details == {"group": "a:b", "members": 1}
    offsets.delete("a:b", queue=STREAM, force=True)
    assert offsets.list_groups(queue=STREAM) == []
