"""Which expirations are numbers; texts as RabbitMQ 3.10 answers."""

import pytest

from amqp_server.broker.publishing.expiration import EXPIRATION_MS_MAX, check_expiration
from amqp_server.protocol.errors import PreconditionFailed


@pytest.mark.parametrize(
    "text", ["0", "5", "00", "+5", "60000", "4294967296", str(EXPIRATION_MS_MAX), "0" * 250 + "7"]
)
def test_milliseconds_in_digits_pass(text: str) -> None:
    check_expiration(text.encode())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        (" 5", "no_integer"),
        ("+", "no_integer"),
        ("--5", "no_integer"),
        ("\u0665", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("5 ", '{leftover_string," "}'),
        ("1.5", '{leftover_string,".5"}'),
        ("1e3", '{leftover_string,"e3"}'),
        ("-1.5", '{leftover_string,".5"}'),
        ('5"x', '{leftover_string,"\\"x"}'),
        ("5\\x", '{leftover_string,"\\\\x"}'),
        ("5\x07", "{leftover_string,[7]}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_anything_else_is_refused(text: str, fault: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        check_expiration(text.encode())

    assert refused.value.reply_text == f"PRECONDITION_FAILED - invalid expiration '{text}': {fault}"
    assert (refused.value.class_id, refused.value.method_id) == (60, 40)
