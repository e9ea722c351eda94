"""The form of policies takes what the server takes, key by key: its list cannot go out of step."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amqp_server.broker.policies.errors import InvalidPolicyError
from amqp_server.broker.policies.keys import KEYS
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.policies.validation import policy_from_json

PAGE = Path(__file__).parents[3] / "amqp_server" / "management" / "page"
ASK = """
import { readFileSync } from "node:fs";
const keys = await import(`${process.argv[1]}/app/policy_keys.js`);
const asked = JSON.parse(readFileSync(0, "utf8"));
const isTaken = ([definition, isOperator]) => Object.keys(keys.definitionMistakes(definition, isOperator)).length === 0;
console.log(JSON.stringify({ keys: keys.POLICY_KEYS, groups: keys.POLICY_GROUPS, taken: asked.map(isTaken) }));
"""  # noqa: E501
SAFE_INTEGER_MAX = (1 << 53) - 1
"""Largest number that JavaScript writes exactly: the form takes none above it."""
NUMBERS = (
    *(-SAFE_INTEGER_MAX, -1, 0, 1, 2, 3, 15, 16, 255, 256, 65_535, 65_536, SAFE_INTEGER_MAX),
    *(1 << 31, (1 << 31) + 1, 3_000_000_000, 3_000_000_001, 315_360_000_000, 315_360_000_001),
)
TEXTS = ("", "x", "7D", "12h", "007s", "0D", "1x", "5", "D", "1h ", "1.5h", "manual", "automatic")
OTHERS: tuple[object, ...] = (
    1.5,
    True,
    False,
    None,
    [],
    ["a"],
    [1],
    {},
    "always",
    "when-synced",
    "min-masters",
)


def page_says(tmp_path: Path, asked: list[tuple[dict[str, object], bool]]) -> dict[str, Any]:
    """Return the keys and groups of the page, and of each definition whether its form takes it."""
    shutil.copytree(PAGE, tmp_path / "page")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        ["node", "--input-type=module", "-e", ASK, (tmp_path / "page").as_uri()],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def server_takes(definition: dict[str, object], is_operator: bool) -> bool:
    kind = PolicyKind.OPERATOR if is_operator else PolicyKind.USER
    try:
        policy_from_json({"name": "p", "pattern": "", "definition": definition}, kind)
    except InvalidPolicyError:
        return False
    return True


def choices_of(name: str) -> list[str]:
    """Return the texts that the check of a key compares with."""
    found: list[str] = []
    for cell in getattr(KEYS[name].is_valid, "__closure__", None) or ():
        if isinstance(cell.cell_contents, tuple):
            found += [str(each) for each in cell.cell_contents]
    return found


def test_the_page_has_every_key_with_its_types_and_a_sentence(tmp_path: Path) -> None:
    said = page_says(tmp_path, [])

    assert set(said["keys"]) == set(KEYS)
    for name, key in said["keys"].items():
        server = KEYS[name]
        assert set(key["types"]) == {str(each) for each in server.types}, name
        assert key["isOperators"] == server.is_operators, name
        is_kept = not server.has_effect and name != "alternate-exchange"
        is_kept |= name.startswith("max-in-memory-")
        assert (key["group"] == said["groups"][-1]) == is_kept, name
        assert key["title"], name
        assert key["help"].endswith("."), name


def test_the_form_takes_the_values_that_the_server_takes(tmp_path: Path) -> None:
    asked: list[tuple[dict[str, object], bool]] = [
        ({name: value}, is_operator)
        for name in KEYS
        for value in (*NUMBERS, *TEXTS, *OTHERS, *choices_of(name))
        for is_operator in (False, True)
    ]
    asked += [
        ({"ha-mode": mode, "ha-params": params}, False)
        for mode in ("all", "exactly", "nodes", "none")
        for params in (0, 1, "1", [], ["rabbit@a"], [1])
    ]
    asked += [
        ({"ha-mode": "all", name: value}, False)
        for name in ("ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown")
        for value in ("manual", "always", "when-synced", 0, 5)
    ]
    said = page_says(tmp_path, asked)

    wrong = [
        (definition, "the form takes it" if taken else "the form refuses it")
        for (definition, is_operator), taken in zip(asked, said["taken"], strict=True)
        if taken != server_takes(definition, is_operator)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["overflow", "durability", "compression", "dead-letter-strategy"])
def test_the_check_of_a_choice_gives_its_choices(name: str) -> None:
    # The test above would probe no choice if the check were written in another way.
    assert len(choices_of(name)) >= 2
