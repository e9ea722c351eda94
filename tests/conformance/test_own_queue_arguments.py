"""Which values the broker takes for arguments that RabbitMQ does not have."""

import pytest

from tests.amqp_client import AmqpClient
from tests.conformance.marks import ours_only
from tests.conformance.queues import Arguments, expect_declaration_refused, expect_usable
from tests.conformance.typed_fields import Typed
from tests.conformance.wrong_types import NOT_INTEGERS, NOT_STRINGS, expect_types_refused

pytestmark = ours_only("RabbitMQ 3.10 has none of these arguments")

INTEGERS = (
    "x-retain-for",
    "x-retain-bytes",
    "x-retain-segments-min",
    "x-force-remove-after",
    "x-segment-max-bytes",
    "x-segment-max-age",
)
MILLISECONDS_MAX = 315_360_000_000
NOT_BOOLEANS = [
    (Typed("b", 1), "byte"),
    (Typed("S", "true"), "longstr"),
    (Typed("V", None), "void"),
]


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("argument", INTEGERS)
def test_an_integer_must_be_one(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    expect_types_refused(
        client, name, argument, queue_type, NOT_INTEGERS, '"expected integer, got {}"'
    )


@pytest.mark.parametrize("argument", ["x-durability", "x-compression"])
def test_the_value_must_be_a_string(client: AmqpClient, name: str, argument: str) -> None:
    expect_types_refused(client, name, argument, "classic", NOT_STRINGS, "{{unacceptable_type,{}}}")


def test_whether_to_protect_what_is_not_consumed_must_be_a_boolean(
    client: AmqpClient, name: str
) -> None:
    argument = "x-protect-unconsumed"
    expect_types_refused(
        client, name, argument, "classic", NOT_BOOLEANS, "{{unacceptable_type,{}}}"
    )


@pytest.mark.parametrize(
    ("argument", "value", "fault"),
    [
        ("x-consumer-timeout", -1, "{value_negative,-1}"),
        ("x-consumer-timeout", MILLISECONDS_MAX + 1, "{value_too_large,315360000001}"),
        ("x-durability", "fsnc", "\"unsupported durability 'fsnc'\""),
        ("x-compression", "lz4", "\"unsupported compression 'lz4'\""),
        ("x-retain-for", -1, "{value_negative,-1}"),
        ("x-retain-bytes", -1, "{value_negative,-1}"),
        ("x-retain-segments-min", -1, "{value_negative,-1}"),
        ("x-retain-segments-min", 0, "{value_zero,0}"),
        ("x-force-remove-after", -1, "{value_negative,-1}"),
        ("x-segment-max-bytes", -1, "{value_negative,-1}"),
        ("x-segment-max-bytes", 65_535, "{value_too_small,65535}"),
        ("x-segment-max-bytes", 2**31 + 1, "{value_too_large,2147483649}"),
        ("x-segment-max-age", -1, "{value_negative,-1}"),
        ("x-segment-max-age", MILLISECONDS_MAX + 1, "{value_too_large,315360000001}"),
    ],
)
def test_a_value_that_an_argument_cannot_have_is_refused(
    client: AmqpClient, name: str, argument: str, value: object, fault: str
) -> None:
    said = fault.replace("{", "{{").replace("}", "}}")
    expect_declaration_refused(
        client, name, f"invalid arg '{argument}' for {{}}: {said}", arguments={argument: value}
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-consumer-timeout": 0, "x-retain-for": 0, "x-compression": "zstd"},
        {"x-segment-max-bytes": 65_536, "x-segment-max-age": 0},
        {"x-segment-max-bytes": 2**31, "x-segment-max-age": MILLISECONDS_MAX},
        {"x-retain-bytes": 0, "x-retain-segments-min": 1, "x-protect-unconsumed": True},
        {"x-force-remove-after": 0, "x-protect-unconsumed": False},
        {"x-durability": "write"},
        {"x-durability": "none", "x-queue-type": "quorum"},
    ],
)
def test_a_value_within_the_bounds_is_taken(
    client: AmqpClient, name: str, arguments: Arguments
) -> None:
    client.declare(name, arguments=arguments)
    expect_usable(client, name)
