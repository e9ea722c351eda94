"""What a shovel may be; the texts are those that RabbitMQ 3.10 was seen to answer."""

from typing import Any

import pytest

from amqp_server.shovel.definition import ShovelError, local_vhosts, parse_shovel
from amqp_server.shovel.link.ack_mode import AckMode

URIS = {"src-uri": "amqp://", "dest-uri": "amqp://"}
WHOLE = {**URIS, "src-queue": "a", "dest-queue": "b"}
NO_SOURCE = "Must specify 'src-exchange' or 'src-queue'"
NO_URIS = ['Key "dest-uri" not found in N', 'Key "src-uri" not found in N']
AFTER = 'should be a number greater than or equal to 0, "never" or "queue-length", actually was'


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, [NO_SOURCE, *NO_URIS]),
    ({"a": 1}, [NO_SOURCE, 'Unrecognised terms [{<<"a">>,1}] in N', *NO_URIS]),
    (URIS, [NO_SOURCE]),
    ({"src-uri": "amqp://", "src-queue": "a"}, NO_URIS[:1]),
    (WHOLE | {"zzz": 1}, ['Unrecognised terms [{<<"zzz">>,1}] in N']),
    (WHOLE | {"src-exchange": "x"}, ["Cannot specify 'src-exchange' and 'src-queue'"]),
    (WHOLE | {"dest-exchange": "x"}, ["Cannot specify 'dest-exchange' and 'dest-queue'"]),
    (WHOLE | {"src-queue": 5}, ["src-queue should be binary, actually was 5"]),
    (
        WHOLE | {"src-prefetch-count": "x"},
        ['src-prefetch-count should be a number, actually was <<"x">>'],
    ),
    (
        WHOLE | {"reconnect-delay": "x"},
        ['reconnect-delay should be a number, actually was <<"x">>'],
    ),
    (
        WHOLE | {"ack-mode": "zz"},
        [
            'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], '
            'actually was <<"zz">>'
        ],
    ),
    (WHOLE | {"ack-mode": 5}, ["ack-mode should be binary, actually was 5"]),
    (WHOLE | {"src-delete-after": "zz"}, [f'src-delete-after {AFTER} <<"zz">>']),
    (WHOLE | {"src-delete-after": -5}, [f"src-delete-after {AFTER} -5"]),
    (WHOLE | {"src-delete-after": 1.5}, [f"src-delete-after {AFTER} 1.5"]),
    (WHOLE | {"src-delete-after": True}, [f"src-delete-after {AFTER} true"]),
    (
        WHOLE | {"src-delete-after": 5, "ack-mode": "no-ack"},
        ["Cannot specify 'no-ack' and numerical 'delete-after'"],
    ),
    (
        WHOLE | {"delete-after": 5, "ack-mode": "no-ack"},
        ["Cannot specify 'no-ack' and numerical 'delete-after'"],
    ),
    (WHOLE | {"src-uri": 5}, ["src-uri should be list, actually was 5"]),
    (WHOLE | {"src-uri": ["amqp://", 5]}, ["src-uri should be list, actually was 5"]),
    (
        WHOLE | {"dest-add-forward-headers": "x"},
        ['dest-add-forward-headers should be boolean, actually was <<"x">>'],
    ),
    (WHOLE | {"dest-publish-properties": 5}, ["dest-publish-properties not a list 5"]),
    (
        WHOLE | {"dest-publish-properties": {"zz": 5}},
        ['Unrecognised terms [{<<"zz">>,5}] in dest-publish-properties'],
    ),
    (
        WHOLE | {"dest-publish-properties": {"priority": "x", "app_id": 7}},
        [
            "app_id should be binary, actually was 7",
            'priority should be a number, actually was <<"x">>',
        ],
    ),
    (URIS | {"src-exchange": 5}, ["src-exchange should be binary, actually was 5"]),
]
"""Values that are no shovel, and what is wrong with them."""


@pytest.mark.parametrize(("value", "faults"), MISTAKES)
def test_a_mistake_is_told_as_rabbitmq_tells_it(value: dict[str, Any], faults: list[str]) -> None:
    with pytest.raises(ShovelError) as refused:
        parse_shovel("N", value)
    assert refused.value.faults == faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"src-protocol": "amqp10"}, "src-protocol amqp10 is not supported"),
        ({"dest-protocol": "mqtt"}, "dest-protocol should be one of amqp091, local"),
        ({"src-uri": []}, "src-uri should have 1 to 32 addresses"),
        ({"src-uri": "http://x"}, "src-uri not a valid URI: the scheme is 'http'"),
        ({"src-uri": "amqp://u:secret@h:x"}, "src-uri not a valid URI: not an address"),
        ({"src-prefetch-count": -1}, "src-prefetch-count should be a whole number from 0 to 65535"),
        ({"src-prefetch-count": True}, "src-prefetch-count should be a number"),
        ({"reconnect-delay": -3}, "reconnect-delay should be a number from 0 to 86400"),
        ({"src-queue": "x" * 256}, "src-queue should have at most 255 bytes"),
        ({"src-queue": "\ud800"}, "src-queue should be UTF-8"),
        ({"src-queue-args": 5}, "src-queue-args should be an object"),
        ({"src-predeclared": "x"}, "src-predeclared should be boolean"),
        ({"dest-publish-properties": {"priority": 256}}, "priority should be a whole number"),
    ],
)
def test_what_could_not_work_is_refused_although_rabbitmq_takes_it(
    change: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ShovelError) as refused:
        parse_shovel("N", WHOLE | change)
    assert fault in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("value", [None, 5, "x", [1], True])
def test_a_shovel_is_an_object(value: object) -> None:
    with pytest.raises(ShovelError, match="N should be an object"):
        parse_shovel("N", value)


def test_what_is_left_out_is_as_in_rabbitmq() -> None:
    found = parse_shovel("N", WHOLE)
    assert (found.prefetch, found.ack_mode, found.reconnect_seconds) == (
        1000,
        AckMode.ON_CONFIRM,
        5,
    )
    assert (found.limit, found.ends_at_queue_length) == (None, False)
    assert (found.adds_forward_headers, found.adds_timestamp_header) == (False, False)


def test_old_names_count_unless_the_new_one_is_there() -> None:
    old = {
        "prefetch-count": 7,
        "delete-after": 9,
        "add-forward-headers": True,
        "publish-properties": {"app_id": "x"},
    }
    found = parse_shovel("N", WHOLE | old)
    assert (found.prefetch, found.limit, found.adds_forward_headers) == (7, 9, True)
    assert found.properties == {"app_id": "x"}
    new = {"src-prefetch-count": 1, "src-delete-after": "queue-length"}
    found = parse_shovel("N", WHOLE | old | new)
    assert (found.prefetch, found.limit, found.ends_at_queue_length) == (1, None, True)


def test_local_vhosts_are_those_without_a_host_and_all_of_the_protocol_local() -> None:
    uris = {"src-uri": ["amqp:///a", "amqp://h/b"], "dest-uri": "amqp://other/c"}
    assert local_vhosts(parse_shovel("N", WHOLE | uris)) == {"a"}
    assert local_vhosts(parse_shovel("N", WHOLE | uris | {"dest-protocol": "local"})) == {"a", "c"}
    assert local_vhosts(parse_shovel("N", WHOLE)) == {"/"}
