"""Attributes that are read by and by are those that publishing would have noted."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.base.clock import Clock
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.rules import unloaded_attributes
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
from appendlog import Append, encode_chunk
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_PRIORITY,
    PERSISTENT,
    encode_message,
)
from offsets.settlement import Settlement
from tests.appendlog.builders import SALT, open_log

NS = 1_000_000
SETTINGS = [
    QueueSettings(),
    QueueSettings(max_priority=5),
    QueueSettings(message_ttl_ms=50),
    QueueSettings(max_priority=5, message_ttl_ms=50, max_length_bytes=1_000),
]


def a_message(chance: random.Random) -> bytes:
    flags, bits, values = PERSISTENT, 0x1000, b"\x02"
    if chance.random() < 0.3:
        flags, bits, values = (
            flags | HAS_PRIORITY,
            bits | 0x0800,
            values + bytes([chance.choice([0, 4])]),
        )
    if chance.random() < 0.2:
        flags, bits, values = flags | HAS_EXPIRATION, bits | 0x0100, values + b"\x0290"
    return encode_message(
        flags, b"", b"q", bits.to_bytes(2, "big") + values, bytes(chance.randrange(9))
    )


@given(st.randoms(use_true_random=False), st.sampled_from(SETTINGS))
def test_they_are_what_publishing_noted(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, settings: QueueSettings
) -> None:
    log, _ = open_log(tmp_path_factory.mktemp("log"), segment_bytes=2_000)
    wholly = MessageAttributes(settings, 0)
    settlement, published = Settlement(), dict[int, tuple[bytes, int]]()
    offset, time_ms = 0, 1_000
    for _ in range(chance.randint(0, 20)):
        messages = [a_message(chance) for _ in range(chance.choice([1, 1, 7]))]
        time_ms += chance.choice([0, 0, 3])
        log.append(
            Append(
                [encode_chunk(messages, offset, None, time_ms * NS, None, SALT)],
                offset + len(messages),
                sync=False,
            )
        )
        for number, message in enumerate(messages, offset):
            published[number] = message, time_ms
        offset += len(messages)
    for number in published:
        if chance.random() < 0.3:
            settlement.settle(number, number + 1)
    floor = settlement.ack_floor
    wholly = MessageAttributes(settings, floor)
    for number, (message, at_ms) in published.items():
        if not settlement.is_settled(number):
            wholly.record(number, [message], message[0], at_ms)
    wholly.close_gap(offset)

    newer = MessageAttributes(settings, offset)
    late = [a_message(chance) for _ in range(3)]
    for attributes in (newer, wholly):
        for number, message in enumerate(late, offset):
            attributes.record(number, [message], message[0], time_ms + 5)
    unread = UnloadedAttributes(
        log,
        MessageAttributes(settings, floor),
        settlement.unsettled_ranges(floor, offset),
        clock_at(time_ms + 5, time_ms + 5),
    )
    while unread.read_some():
        pass
    newer.put_before(unread.attributes)

    for found, wanted in ((newer.priorities, wholly.priorities), (newer.sizes, wholly.sizes)):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert found.end == wanted.end == offset + 3
            assert found.numbers(floor, offset + 3) == wanted.numbers(floor, offset + 3)
    assert due(newer) == due(wholly)


def clock_at(of_day_ms: int, monotonic_ms: int) -> Clock:
    """Return a clock that stands still."""
    return cast(
        "Clock",
        SimpleNamespace(time_ns=lambda: of_day_ms * NS, monotonic_ms=lambda: monotonic_ms),
    )


@pytest.mark.parametrize(
    ("appended_ms", "deadline_ms"),
    [(1_000, 1_050), (900, 950), (1_001, 1_050), (1_000_000_000, 1_050), (-5_000, -4_950)],
)
def test_a_message_is_never_younger_than_one_that_comes_now(
    tmp_path: Path, appended_ms: int, deadline_ms: int
) -> None:
    """Whatever its append time says."""
    message = encode_message(PERSISTENT, b"", b"q", b"\x10\x00\x02", b"")
    log, _ = open_log(tmp_path)
    log.append(
        Append(
            [encode_chunk([message], 0, None, (10_000 + appended_ms) * NS, None, SALT)],
            1,
            sync=True,
        )
    )
    attributes = MessageAttributes(QueueSettings(message_ttl_ms=50), 0)
    unread = UnloadedAttributes(log, attributes, [(0, 1)], clock_at(11_000, 1_000))
    assert not unread.read_some()
    assert due(attributes) == {0: deadline_ms}


def due(attributes: MessageAttributes) -> dict[int, int]:
    """Return the deadline of each offset."""
    found: dict[int, int] = {}
    while (next_ms := attributes.deadlines.next_ms) is not None:
        for start, end in attributes.deadlines.take_due(next_ms):
            found.update(dict.fromkeys(range(start, end), next_ms))
    return found


def test_only_segments_that_have_something_to_know_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unloaded_attributes, "READ_RECORDS", 1)
    log, _ = open_log(tmp_path, segment_bytes=200)
    plain = encode_message(PERSISTENT, b"", b"q", b"\x10\x00\x02", b"")
    high = encode_message(PERSISTENT | HAS_PRIORITY, b"", b"q", b"\x18\x00\x02\x03", b"")
    for offset, message in enumerate([plain, high, plain, plain]):
        log.append(
            Append(
                [encode_chunk([message], offset, None, 1_000, None, SALT)], offset + 1, sync=False
            )
        )
    assert len(log.summaries()) == 4
    attributes = MessageAttributes(QueueSettings(max_priority=5), 0)
    unread = UnloadedAttributes(log, attributes, [(0, 4)], clock_at(1_000, 1_000))
    assert not unread.read_some()
    attributes.close_gap(4)
    assert attributes.priorities is not None
    assert list(attributes.priorities.numbers(0, 4)) == [0, 3, 0, 0]
