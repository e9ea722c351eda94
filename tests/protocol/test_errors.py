"""Reply codes and reply texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol import errors
from amqp_server.protocol.errors import AmqpError, HardError, NotFound, SoftError

# The specification's table, section 1.2: code, code name, class of error.
REPLY_CODES = [
    (errors.AccessRefused, 403, "ACCESS_REFUSED", SoftError),
    (errors.NotFound, 404, "NOT_FOUND", SoftError),
    (errors.ResourceLocked, 405, "RESOURCE_LOCKED", SoftError),
    (errors.PreconditionFailed, 406, "PRECONDITION_FAILED", SoftError),
    (errors.ConnectionForced, 320, "CONNECTION_FORCED", HardError),
    (errors.FrameError, 501, "FRAME_ERROR", HardError),
    (errors.FieldSyntaxError, 502, "SYNTAX_ERROR", HardError),
    (errors.CommandInvalid, 503, "COMMAND_INVALID", HardError),
    (errors.ChannelError, 504, "CHANNEL_ERROR", HardError),
    (errors.UnexpectedFrame, 505, "UNEXPECTED_FRAME", HardError),
    (errors.ResourceError, 506, "RESOURCE_ERROR", HardError),
    (errors.NotAllowed, 530, "NOT_ALLOWED", HardError),
    (errors.NotImplementedAmqp, 540, "NOT_IMPLEMENTED", HardError),
    (errors.InternalError, 541, "INTERNAL_ERROR", HardError),
]


@pytest.mark.parametrize(("error_class", "code", "name", "base"), REPLY_CODES)
def test_every_error_has_its_reply_code_and_begins_its_text_with_the_code_name(
    error_class: type[AmqpError], code: int, name: str, base: type[AmqpError]
) -> None:
    error = error_class("why")
    assert error.reply_code == code
    assert error.reply_text == f"{name} - why"
    assert isinstance(error, base)


def test_every_error_class_is_in_the_table() -> None:
    concrete = {*SoftError.__subclasses__(), *HardError.__subclasses__()}
    assert concrete == {row[0] for row in REPLY_CODES}


def test_an_error_names_the_method_that_failed() -> None:
    assert (NotFound("x").class_id, NotFound("x").method_id) == (0, 0)
    error = NotFound("no queue 'q' in vhost '/'", 50, 10)
    assert (error.class_id, error.method_id) == (50, 10)
    assert error.with_method(60, 20) is error
    assert (error.class_id, error.method_id) == (60, 20)
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"


@pytest.mark.parametrize("character", ["a", "é", "€", "🐇"])
def test_a_long_text_is_cut_between_characters(character: str) -> None:
    for padding in range(4):
        text = NotFound("x" * padding + character * 300).reply_text
        encoded = text.encode("utf-8")
        assert 255 - len(character.encode("utf-8")) < len(encoded) <= 255
        assert text.endswith("...")
        assert text.removesuffix("...").rstrip(character) == "NOT_FOUND - " + "x" * padding


def test_a_text_of_exactly_255_bytes_is_not_cut() -> None:
    explanation = "x" * (255 - len("NOT_FOUND - "))
    assert NotFound(explanation).reply_text == f"NOT_FOUND - {explanation}"


@given(st.binary(max_size=400).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_bytes_off_the_wire_can_stand_in_a_text(explanation: str) -> None:
    encoded = NotFound(explanation).reply_text.encode("utf-8", "surrogateescape")
    whole = f"NOT_FOUND - {explanation}".encode("utf-8", "surrogateescape")
    assert whole == encoded or whole.startswith(encoded.removesuffix(b"..."))
    assert len(encoded) >= min(len(whole), 252)


def test_a_text_that_cannot_be_sent_is_replaced_instead_of_hiding_the_error() -> None:
    assert NotFound("bad \ud800 name").reply_text == "NOT_FOUND - bad ? name"


def test_a_text_without_any_boundary_near_the_limit_is_cut_at_the_limit() -> None:
    text = NotFound("\udc80" * 300).reply_text
    assert len(text.encode("utf-8", "surrogateescape")) == 255
