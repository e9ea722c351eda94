"""The tests of conformance that wait agree with a clock that is turned: the same tests, both ways.

In `tests.conformance` they wait in real time. Here each wait of theirs turns the clock.
"""
# ruff: noqa: F401 - pytest runs what is imported here

import pytest

from amqp_server.testing.clock import TurnedClock
from tests.clock.turned_time import wait_in_turned_time
from tests.conformance import (
    polling,
    test_consumer_timeout,
    test_message_ttl,
    test_queue_expiry,
)
from tests.conformance.test_consumer_timeout import (
    test_a_consumer_that_answers_in_time_keeps_its_channel,
    test_it_concerns_its_channel_only,
)
from tests.conformance.test_message_ttl import (
    test_a_message_expires_behind_one_that_does_not,
    test_a_message_requeued_after_its_deadline_is_not_delivered_again,
    test_a_message_requeued_before_its_deadline_keeps_it,
    test_a_message_stays_until_its_time_has_come,
    test_expired_messages_are_neither_counted_nor_delivered,
    test_expired_messages_are_not_purged,
    test_the_remaining_messages_keep_their_order,
    test_the_shorter_of_the_times_decides,
)
from tests.conformance.test_queue_expiry import (
    test_a_consumer_that_is_lost_starts_the_time_again,
    test_a_queue_that_is_used_stays,
    test_a_queue_with_a_consumer_stays_until_some_time_after_its_end,
    test_an_unused_queue_is_deleted_with_its_messages,
    test_messages_of_an_expired_queue_are_no_dead_letters,
)


@pytest.fixture(autouse=True)
def turned_time(clock: TurnedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests wait by turning the clock."""
    wait_in_turned_time(
        monkeypatch, clock, polling, test_consumer_timeout, test_message_ttl, test_queue_expiry
    )
