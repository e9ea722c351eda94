import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.spark.errors import CheckpointError
from appendlog.spark.source.stream_offsets import (
    QueuePlace,
    QueueRange,
    StreamOffsets,
    ranges_between,
)

GOLDEN = Path(__file__).parent / "data" / "stream_offsets_v1.json"
ONE = UUID("00000000-0000-4000-8000-000000000001")
TWO = UUID("00000000-0000-4000-8000-000000000002")

PLACES = st.builds(
    lambda incarnation, start, count: QueuePlace(incarnation, start, start + count),
    st.uuids(),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
)


def test_a_checkpoint_of_version_1_is_read_and_written_byte_for_byte_for_ever() -> None:
    text = GOLDEN.read_text().strip()
    offsets = StreamOffsets.from_json(json.loads(text), "/")
    assert offsets.places == {
        "": QueuePlace(ONE, 0, 0),
        "orders": QueuePlace(UUID("0c3c1b6e-7a44-4a06-9c1c-0d3c1f4a9e52"), 100, 50_000),
        "version": QueuePlace(UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"), 7, 2**63 - 1),
        'été "x"\n': QueuePlace(TWO, 1, 1),
    }
    assert json.dumps(offsets.to_json()) == text


def test_a_stream_that_reads_no_queue_yet_has_begun() -> None:
    text = '{"": {"version": 1, "vhost": "/"}}'
    assert json.dumps(at().to_json()) == text
    assert StreamOffsets.from_json(json.loads(text), "/") == at()
    with pytest.raises(CheckpointError, match="newer release"):
        StreamOffsets.from_json({"": {"version": 2, "vhost": "/"}}, "/")


@given(st.text(), st.dictionaries(st.text(), PLACES, max_size=4))
def test_any_names_come_back_and_their_order_does_not_matter(
    vhost: str, places: dict[str, QueuePlace]
) -> None:
    text = json.dumps(StreamOffsets(vhost, places).to_json())
    assert StreamOffsets.from_json(json.loads(text), vhost).places == places
    backwards = dict(reversed(places.items()))
    assert json.dumps(StreamOffsets(vhost, backwards).to_json()) == text


def test_keys_of_later_releases_do_not_stand_in_the_way() -> None:
    fields = {"0": 5, "from": 1, "incarnation": str(ONE), "version": 1, "vhost": "/", "more": [1]}
    found = StreamOffsets.from_json({"q": fields}, "/")
    assert found.places == {"q": QueuePlace(ONE, 1, 5)}


def fields_with(**changed: object) -> dict[str, Any]:
    fields = {"0": 5, "from": 1, "incarnation": str(ONE), "version": 1, "vhost": "/"}
    return {"q": {**fields, **changed}}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "not an object"),
        ([], "not an object"),
        ({"topic": {"0": 5, "1": 7}}, "expected an object with the keys '0' and 'incarnation'"),
        ({"offset": 7}, "queue 'offset': expected an object"),
        ({"q": {"1": 5, "incarnation": str(ONE)}}, "expected an object with the keys"),
        (fields_with(version=2), "newer release: version 2"),
        (fields_with(version="1"), "'version' is '1'"),
        (fields_with(vhost="prod"), "virtual host 'prod', the option vhost says '/'"),
        (fields_with(incarnation="7"), "'7' is no incarnation"),
        (fields_with(incarnation=7), "7 is no incarnation"),
        (fields_with(**{"0": -1}), "'0' is -1"),
        (fields_with(**{"0": True}), "'0' is True"),
        (fields_with(**{"from": None}), "'from' is None"),
        (fields_with(**{"from": 6}), "offset 5 is below its 'from' 6"),
    ],
)
def test_a_checkpoint_of_another_source_is_refused_with_the_reason(
    found: object, message: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        StreamOffsets.from_json(found, "/")
    assert message in str(caught.value)
    assert "checkpointLocation" in str(caught.value)
    assert "\n" not in str(caught.value)


def at(**places: QueuePlace) -> StreamOffsets:
    return StreamOffsets("/", places)


def test_a_batch_is_what_lies_between_two_places() -> None:
    start = at(a=QueuePlace(ONE, 2, 5), b=QueuePlace(TWO, 0, 3), gone=QueuePlace(ONE, 0, 1))
    end = at(a=QueuePlace(ONE, 2, 9), b=QueuePlace(TWO, 0, 3))
    assert list(ranges_between(start, end)) == [QueueRange("a", ONE, 5, 9)]


def test_a_queue_that_is_new_in_a_batch_is_read_from_where_the_batch_says() -> None:
    end = at(a=QueuePlace(ONE, 4, 9))
    assert list(ranges_between(at(), end)) == [QueueRange("a", ONE, 4, 9)]
    other = at(a=QueuePlace(TWO, 0, 100))
    assert list(ranges_between(other, end)) == [QueueRange("a", ONE, 4, 9)]


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(CheckpointError, match="ends at offset 5 begins at 9"):
        list(ranges_between(at(a=QueuePlace(ONE, 0, 9)), at(a=QueuePlace(ONE, 0, 5))))
