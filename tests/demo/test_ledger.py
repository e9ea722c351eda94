"""The demo's proof: it must notice each way in which a broker could fail."""

from cli.demo.flights import Flight
from cli.demo.ledger import Ledger


def ledger_of(*bodies: bytes) -> Ledger:
    ledger = Ledger()
    for number, body in enumerate(bodies):
        ledger.note_published(Flight(number, "UA", "UA.EWR", body))
    return ledger


def test_what_has_not_come_is_missing() -> None:
    ledger = ledger_of(b"a", b"b", b"c")

    ledger.note_received(1, b"b", redelivered=False)

    assert (ledger.missing, ledger.distinct) == (2, 1)


def test_what_comes_twice_and_marked_is_repeated_and_nothing_else() -> None:
    ledger = ledger_of(b"a")

    ledger.note_received(0, b"a", redelivered=False)
    ledger.note_received(0, b"a", redelivered=True)

    assert (ledger.missing, ledger.repeated, ledger.unmarked, ledger.damaged) == (0, 1, 0, 0)


def test_what_comes_twice_without_its_mark_is_noticed() -> None:
    ledger = ledger_of(b"a")

    ledger.note_received(0, b"a", redelivered=False)
    ledger.note_received(0, b"a", redelivered=False)

    assert ledger.unmarked == 1


def test_a_body_of_another_flight_is_noticed() -> None:
    ledger = ledger_of(b"a", b"b")

    ledger.note_received(0, b"b", redelivered=False)

    assert ledger.damaged == 1
