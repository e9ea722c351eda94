"""Octets and frames as RabbitMQ's reply texts show them."""

import pytest

from amqp_server.protocol.frame_text import binary_text, frame_text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"", "<<>>"),
        (b"abc", '<<"abc">>'),
        (b'a"b\\', '<<"a\\"b\\\\">>'),
        (b"\x00\x3c", "<<0,60>>"),
        (b"abc\xff", "<<97,98,99,255>>"),
        (b" ~", '<<" ~">>'),
        (b"\x1f", "<<31>>"),
        (b"\x7f", "<<127>>"),
    ],
)
def test_octets_are_shown_as_erlang_shows_a_binary(octets: bytes, text: str) -> None:
    assert binary_text(octets) == text


def test_a_text_does_not_grow_with_what_was_sent() -> None:
    assert len(binary_text(b"x" * 100_000)) < 300
    assert len(binary_text(b"\xff" * 100_000)) < 1000


def test_a_frame_is_shown_by_its_first_sixteen_octets() -> None:
    assert frame_text(1, b"x" * 16) == 'type 1, all octets = <<"xxxxxxxxxxxxxxxx">>'
    assert frame_text(3, b"x" * 17) == 'type 3, first 16 octets = <<"xxxxxxxxxxxxxxxx">>'
