"""The tests of delayed messages, with a clock that is turned."""
# ruff: noqa: F401 - pytest runs what is imported here

import pytest

from amqp_server.testing.clock import TurnedClock
from tests.clock.turned_time import wait_in_turned_time
from tests.conformance import polling, test_delayed_exchange
from tests.conformance.test_delayed_exchange import (
    client,
    test_a_message_arrives_when_its_delay_is_over_and_not_sooner,
    test_bindings_count_when_the_delay_is_over,
    test_copies_are_delayed_too_and_have_no_bcc,
    test_the_time_to_live_begins_when_the_delay_is_over,
)


@pytest.fixture(autouse=True)
def turned_time(clock: TurnedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests wait by turning the clock."""
    wait_in_turned_time(monkeypatch, clock, polling, test_delayed_exchange)
