"""The page of the configuration has every option, with its default, bounds and section."""

import re
from pathlib import Path

import click

from amqp_server.base.config import BOUNDS, Bounds, ServerConfig
from cli.default_user import default_user_values
from cli.main import command
from cli.option_groups import OPTION_GROUPS
from cli.settings import ServerOption, build_config
from cli.units import DURATION, SIZE, format_duration, format_size
from tests.docs.code_blocks import REPOSITORY, texts_of

PAGE = REPOSITORY / "docs" / "configuration.md"
ROW = re.compile(
    r"^\| `--([a-z0-9-]+)` \|[^|]*\| *(?:`([^`]*)`)? *\|([^|]*)\| (.+) \|$", re.MULTILINE
)
OPTIONS = {param.key: param for param in command.params if isinstance(param, ServerOption)}


def rows() -> dict[str, re.Match[str]]:
    """Return the row of each option; its groups are option, default, bound and effect."""
    return {row[1]: row for row in ROW.finditer(PAGE.read_text())}


def describe(option: ServerOption, bounds: Bounds) -> str:
    """Write bounds as the page does."""

    def write(value: float) -> str:
        if option.type is DURATION:
            return format_duration(value)
        return format_size(int(value)) if option.type is SIZE else str(value)

    zero = "0, or " if bounds.or_zero else ""
    steps = f", a multiple of {bounds.multiple_of}" if bounds.multiple_of > 1 else ""
    return f"{zero}{write(bounds.least)} to {write(bounds.most)}{steps}"


def test_every_option_is_in_the_table_with_its_default() -> None:
    shown = {option: row[2] or "" for option, row in rows().items()}

    assert shown.keys() == OPTIONS.keys()
    # The files have none.
    wrong = {name: text for name, text in shown.items() if text != str(OPTIONS[name].default)}
    files = ("config", "default-pass-file", "load-definitions", "rabbitmq-conf")
    assert wrong == dict.fromkeys(files, "")


def test_every_bound_of_a_number_is_in_the_table() -> None:
    shown = {option: row[3].strip() for option, row in rows().items()}
    bounds = {
        key: describe(option, BOUNDS[str(option.name)])
        for key, option in OPTIONS.items()
        if str(option.name) in BOUNDS
    }
    # A size or a share: two spans in one.
    assert bounds.pop("memory-watermark")
    assert shown["memory-watermark"] == "0 to 1, or 1MiB to 1TiB"

    wrong = {key: text for key, text in bounds.items() if shown[key].partition(", at")[0] != text}
    assert wrong == {}


def test_every_choice_is_in_the_table() -> None:
    choices = {
        key: option.type.choices
        for key, option in OPTIONS.items()
        if isinstance(option.type, click.Choice)
    }
    assert choices
    for key, expected in choices.items():
        assert re.findall(r"`(\w+)`", rows()[key][3]) == list(expected), key


def test_the_sections_of_the_page_are_those_of_the_help_page() -> None:
    shown = {
        title: [row[1] for row in ROW.finditer(text)]
        for title, text in re.findall(
            r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE.read_text(), re.MULTILINE
        )
        if ROW.search(text)
    }
    assert {title: set(options) for title, options in shown.items()} == {
        title: set(options) for title, options in OPTION_GROUPS.items()
    }


def test_the_file_on_the_page_is_a_configuration(tmp_path: Path) -> None:
    (example,) = texts_of(PAGE, "toml")
    path = tmp_path / "server.toml"
    path.write_text(example)

    with command.make_context("amqp-server", ["--config", str(path)]) as ctx:
        config = build_config(ctx, default_user_values(ctx, ctx.params))

    assert config == ServerConfig(
        host="0.0.0.0",
        storage_path=Path("/var/lib/amqp-server"),
        retain_for_seconds=86_400.0,
        disk_free_limit_bytes=1 << 30,
        guest_from_anywhere=True,
        log_format="json",
        # Used with a certificate only; tests switch the other ports off by variables.
        management_tls_port=15671,
    )
