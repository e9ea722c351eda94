"""A poll of many queues is done in short pieces, however fast its client reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from amqp_server.admin.change_feed.row import STEP_ROWS
from amqp_server.control import change_feed, listener
from amqp_server.control.client import follow
from tests.amqp_client import connect
from tests.control.test_unread_replies import EVERYTHING, declare_many
from tests.threaded_server import ThreadedServer

QUEUES: Final = 2_000
REPORTS_MIN: Final = 15


def turns_of_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_seconds: float
) -> list[str]:
    """Return what the loop did during a poll: `report` was sent, others had their `turn`."""
    monkeypatch.setattr(change_feed, "SLICE_SECONDS", slice_seconds)
    turns: list[str] = []
    write = listener._write

    async def note_and_write(*arguments: Any) -> None:  # noqa: ANN401 - of `_write`
        turns.append("report")
        await write(*arguments)

    monkeypatch.setattr(listener, "_write", note_and_write)
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel()
        declare_many(client, QUEUES)

        def tick() -> None:
            turns.append("turn")
            server._loop.call_soon(tick)

        server._loop.call_soon_threadsafe(tick)
        follow(tmp_path / "data", "management.changes", EVERYTHING, lambda _report: None)
    return turns


def test_others_have_their_turn_between_two_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No slice ever ends: each report is one piece.
    turns = turns_of_a_poll(tmp_path, monkeypatch, 60.0)

    assert turns.count("report") >= REPORTS_MIN
    # The first one only says that a poll begins.
    assert " ".join(turns).count("report report") <= 1


def test_others_have_their_turn_within_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each step is a slice of its own.
    turns = turns_of_a_poll(tmp_path, monkeypatch, 0.0)

    first = turns.index("report")
    last = len(turns) - turns[::-1].index("report")
    assert turns[first:last].count("turn") >= QUEUES / STEP_ROWS
