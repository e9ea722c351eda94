"""What a definitions file may contain, before a server is asked."""

from pathlib import Path

import orjson
import pytest

from amqp_server.access.passwords import PasswordHash
from amqp_server.definitions_file import file_content
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.file_content import (
    FILE_BYTES_MAX,
    SECTIONS,
    hash_passwords,
    parse_definitions,
    read_definitions,
)
from amqp_server.definitions_file.json_arguments import (
    is_same,
    plain_from_table,
    table_from_plain,
)
from amqp_server.protocol.field_values import FieldValue


def test_entries_come_in_the_order_of_the_import() -> None:
    content = orjson.dumps({"bindings": [{}], "rabbit_version": "3.10.8", "queues": [{}, {}]})
    found = parse_definitions(content)
    places = [entry.place for entry in found.entries]
    assert places == ["queues[0]", "queues[1]", "bindings[0]"]
    assert found.rabbit_version == "3.10.8"
    assert SECTIONS.index("queues") < SECTIONS.index("bindings")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"queues": [{"name": "q"', "not JSON"),
        (b'{"queues": [{"name": "\xff"}]}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"queues": {}}', "'queues' is not a list"),
        (b'{"queues": [{}, 1]}', r"queues\[1\]: not an object"),
        (b" " * (FILE_BYTES_MAX + 1), "larger than 32 MiB"),
    ],
)
def test_what_is_no_definitions_file_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DefinitionsError, match=reason):
        parse_definitions(content)


def test_unknown_sections_are_ignored() -> None:
    assert parse_definitions(b'{"federation": 1, "queues": null}').entries == []


@pytest.mark.parametrize(
    ("top", "is_single"),
    [
        ({"rabbitmq_definition_format": "single_virtual_host", "vhosts": []}, True),
        ({"rabbitmq_definition_format": "cluster", "vhosts": []}, False),
        ({"queues": [{"name": "q"}]}, True),
        ({"queues": [{"name": "q", "vhost": "/"}]}, False),
        ({"vhosts": [], "queues": [{"name": "q"}]}, False),
    ],
)
def test_a_file_of_one_virtual_host_is_recognised(top: dict[str, object], is_single: bool) -> None:
    assert parse_definitions(orjson.dumps(top)).is_single_vhost == is_single


def test_a_directory_is_one_import_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(b'{"queues": [{"name": "b"}], "vhosts": []}')
    (tmp_path / "a.json").write_bytes(b'{"queues": [{"name": "a"}], "vhosts": []}')
    (tmp_path / "c.txt").write_bytes(b"no definitions")
    places = [entry.place for entry in read_definitions(tmp_path).entries]
    assert places == ["a.json: queues[0]", "b.json: queues[0]"]


def test_files_of_a_directory_share_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_content, "FILE_BYTES_MAX", 20)
    (tmp_path / "a.json").write_bytes(b'{"queues": []}')
    (tmp_path / "b.json").write_bytes(b'{"queues": []}')
    with pytest.raises(DefinitionsError, match=r"b\.json: larger than"):
        read_definitions(tmp_path)


def test_a_path_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionsError, match="no files"):
        read_definitions(tmp_path)
    with pytest.raises(DefinitionsError, match="No such file"):
        read_definitions(tmp_path / "missing.json")


ARGUMENTS = {
    "x-max-length": 5,
    "x-match": "all",
    "ratio": 1.5,
    "yes": True,
    "none": None,
    "list": [1, "a", {"deep": [False]}],
    "table": {"ä": 1 << 62},
}


def test_arguments_are_what_rabbitmq_makes_of_them() -> None:
    table = table_from_plain(ARGUMENTS)
    assert table["x-max-length"] == FieldValue(b"l", 5)
    assert table["x-match"] == FieldValue(b"S", b"all")
    assert table["ratio"] == FieldValue(b"d", 1.5)
    assert plain_from_table(table) == ARGUMENTS


def test_arguments_that_no_field_table_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        table_from_plain({"a": 1 << 63})
    with pytest.raises(ValueError, match="255 bytes"):
        table_from_plain({"a" * 256: 1})
    nested: dict[str, object] = {}
    for _ in range(200):
        nested = {"a": nested}
    with pytest.raises(ValueError, match="levels"):
        table_from_plain(nested)


def test_values_of_other_types_are_not_the_same() -> None:
    assert is_same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not is_same(1, 1.0)
    assert not is_same(1, True)


def test_a_password_becomes_a_slow_hash() -> None:
    content = b'{"users": [{"name": "u", "password": "secret", "tags": ""}, {"name": "v"}]}'
    hashed, other = hash_passwords(parse_definitions(content).entries)
    made = PasswordHash(hashed.fields["hashing_algorithm"], hashed.fields["password_hash"])
    assert made.is_slow
    assert made.matches(b"secret")
    assert "password" not in hashed.fields
    assert other.fields == {"name": "v"}


def test_a_password_and_a_hash_are_one_too_many() -> None:
    content = b'{"users": [{"name": "u", "password": "secret", "password_hash": "x"}]}'
    with pytest.raises(DefinitionsError, match=r"users\[0\]: has both"):
        list(hash_passwords(parse_definitions(content).entries))
