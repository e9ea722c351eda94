"""Every command line on the pages is one that the program understands."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cli.main import command
from tests.docs.code_blocks import PAGES, REPOSITORY, code_blocks

LINE = re.compile(r"^(?:\$ )?(amqp-server(?: .*)?)$", re.MULTILINE)
QUOTED = re.compile(r"`(amqp-server [^`]+)`")


def command_lines(page: Path) -> list[str]:
    """Return the command lines of code blocks, without comments, and those quoted in the text."""
    blocks = "\n".join(
        block.text for block in code_blocks(page) if block.language in {"sh", "console"}
    )
    lines = LINE.findall(blocks.replace("\\\n", " ")) + QUOTED.findall(page.read_text())
    return [line.partition("   ")[0].partition(" #")[0].partition(" | ")[0] for line in lines]


def unknown_words(line: str) -> list[str]:
    """Return the subcommands and options of a command line that the program does not have."""
    unknown = []
    found: click.Command = command
    is_named = False
    for word in shlex.split(line)[1:]:
        name = word.partition("=")[0]
        if name.startswith("--"):
            is_named = True
            options = {text for param in found.params for text in param.opts + param.secondary_opts}
            if name not in options | {"--help"}:
                unknown.append(name)
        elif isinstance(found, click.Group) and not is_named and re.fullmatch(r"[a-z-]+", word):
            inner = found.get_command(click.Context(found), word)
            if inner is None:
                unknown.append(word)
            else:
                found = inner
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_and_options_on_a_page_exist(page: Path) -> None:
    unknown = {line: words for line in command_lines(page) if (words := unknown_words(line))}
    assert unknown == {}


def test_many_commands_are_found_and_wrong_ones_are_told(tmp_path: Path) -> None:
    assert sum(len(command_lines(page)) for page in PAGES) > 100
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ amqp-server stats --sorted ready\namqp-server lost --queue q # why\n```\n"
        "`amqp-server shards delete a --if-empty`\n"
    )
    assert [unknown_words(line) for line in command_lines(page)] == [
        ["--sorted"],
        ["lost", "--queue"],
        [],
    ]
