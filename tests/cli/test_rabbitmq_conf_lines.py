"""The lines of `rabbitmq.conf`, as RabbitMQ's own parser reads them."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.rabbitmq_conf.entries import ConfMistakeError, Entry, parse_entries
from cli.rabbitmq_conf.keys import KNOWN, matches
from cli.rabbitmq_conf.translation import translate

PATH = Path("rabbitmq.conf")
WORDS = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=8)
KEYS = st.lists(WORDS, min_size=1, max_size=4).map(tuple)
VALUES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="#'$"),
    min_size=1,
    max_size=12,
).filter(lambda text: text == text.strip() and not text.startswith("encrypted:"))
SPACES = st.text(" \t", max_size=3)


def parse(text: str, environment: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(each.key, each.value) for each in parse_entries(PATH, text, environment or {})]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a = 1", [("a", "1")]),
        ("  a=1", [("a", "1")]),
        ("a.b-c_1 =  two words \t", [("a.b-c_1", "two words")]),
        ("a = b # comment", [("a", "b")]),
        ("a = b#comment", [("a", "b")]),
        ("a = b = c", [("a", "b = c")]),
        ("a = 'b # c'  # d", [("a", "b # c")]),
        ("a = 'b", [("a", "'b")]),
        ("a = ''", [("a", "")]),
        ('a = "b"', [("a", '"b"')]),
        ("a = é", [("a", "é")]),
        ("a = 1\r", [("a", "1")]),
        ("## a = 1", []),
        ("", []),
        (" \t", []),
    ],
)
def test_a_line_is_a_key_and_a_value(line: str, expected: list[tuple[str, str]]) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize("line", ["a", "a =", "a = # b", "= 1", "a b = 1", "é = 1", ".a = 1"])
def test_any_other_line_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(ConfMistakeError, match=r"^rabbitmq\.conf:3: "):
        parse(f"# one\n\n{line}\n")


def test_an_escaped_dot_is_part_of_a_name() -> None:
    (entry,) = parse_entries(PATH, r"loopback_users.a\.b = false", {})

    assert entry.parts == ("loopback_users", "a.b")


@given(st.lists(st.tuples(KEYS, SPACES, VALUES, SPACES, st.booleans()), max_size=6))
def test_what_is_written_is_read(
    lines: list[tuple[tuple[str, ...], str, str, str, bool]],
) -> None:
    text = "".join(
        f"{before}{'.'.join(key)}{before}={after}{value}{after}{'# more' if comment else ''}\n"
        for key, before, value, after, comment in lines
    )
    assert parse(text) == [(".".join(key), value) for key, _, value, _, _ in lines]


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_entries_or_one_mistake(text: str) -> None:
    entries, mistake = parse_or_mistake(text)
    assert mistake is None or mistake.startswith("rabbitmq.conf:")
    assert all(each.key and each.line <= text.count("\n") + 1 for each in entries)


def parse_or_mistake(text: str) -> tuple[list[Entry], str | None]:
    try:
        return list(parse_entries(PATH, text, {})), None
    except ConfMistakeError as error:
        return [], str(error)


@given(st.sampled_from(KNOWN), WORDS, VALUES)
def test_every_known_key_is_taken_or_refused_with_its_place(
    known: str, word: str, value: str
) -> None:
    key = known.replace("$", word).replace("*", word)
    entry = Entry(PATH, 4, key, value)
    assert matches(known, entry.parts)
    settings, mistake = translate_or_mistake(entry)
    assert settings <= {"port", "heartbeat"}
    if mistake is not None:
        assert mistake.startswith(f"rabbitmq.conf:4: {key}: ")
        assert "is no key" not in mistake


def translate_or_mistake(entry: Entry) -> tuple[set[str], str | None]:
    try:
        return set(translate([entry], {"port", "heartbeat"}).settings), None
    except ConfMistakeError as error:
        return set(), str(error)
