"""The command itself: help, version, subcommands, and how it refuses."""

import sys
from importlib import import_module
from types import ModuleType

import click
import pytest

import appendlog  # noqa: F401 - loaded before a test takes one of its modules away
from amqp_server import __version__
from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.compiled_loop import loop
from cli.commands import COMMANDS, missing_library
from cli.main import command, main
from cli.option_groups import OPTION_GROUPS
from cli.settings import ServerOption
from tests.cli.conftest import Refuse


@pytest.fixture
def calls(started: list[ServerConfig], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the module of `export`; holds the storage path of every call."""
    paths: list[str] = []

    @click.command()
    @click.option("--storage-path", required=True)
    def export(storage_path: str) -> int:
        """Export."""
        paths.append(storage_path)
        return 7

    module = ModuleType("cli.export")
    module.export = export  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cli.export", module)
    return paths


def test_every_option_of_the_server_is_in_one_section_of_the_help_page() -> None:
    grouped = [option for options in OPTION_GROUPS.values() for option in options]
    known = [param.key for param in command.params if isinstance(param, ServerOption)]
    assert sorted(grouped) == sorted(known)


def test_help_lists_options_and_subcommands_without_importing_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for lazy in COMMANDS.values():
        monkeypatch.setitem(sys.modules, lazy.module, None)  # an import would fail

    assert main(["--help"]) == 0

    page = capsys.readouterr().out
    assert "--offset-checkpoint-interval" in page
    for name, lazy in COMMANDS.items():
        assert f"  {name}" in page
        assert lazy.summary.split()[0] in page


def test_version_names_python_and_the_state_of_the_kernels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, compiled in (
        ("amqp_server.protocol.framing", True),
        ("appendlog.layout.records", False),
        ("appendlog.layout.columns", True),
    ):
        kernel = ModuleType(name)
        kernel.COMPILED = compiled  # type: ignore[attr-defined]
        import_module(name)  # so that the package has it: a name that is gone fails
        package, _, attribute = name.rpartition(".")
        monkeypatch.setitem(sys.modules, name, kernel)
        monkeypatch.setattr(f"{package}.{attribute}", kernel)

    assert main(["--version"]) == 0

    line = capsys.readouterr().out
    form = "compiled" if loop.is_used else "interpreted"
    assert line.startswith(f"amqp-server {__version__} (Python 3.")
    assert line.endswith(
        f"; loop: {form}, framing: compiled, records: interpreted, columns: compiled)\n"
    )


def test_version_says_which_compiled_kernel_is_required_and_absent(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module("appendlog.layout.records")
    monkeypatch.setitem(sys.modules, "appendlog.layout.records", None)
    monkeypatch.delattr("appendlog.layout.records")

    assert "records" in refuse("--version")


def test_a_mistyped_option_is_answered_with_the_nearest(refuse: Refuse) -> None:
    assert "'--ring-size'" in refuse("--ring-siz", "1024")


def test_an_unknown_command_is_refused(refuse: Refuse) -> None:
    assert "'nonsense'" in refuse("nonsense")


def test_a_startup_error_is_one_line_and_exit_code_2(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_config: ServerConfig) -> int:
        raise StartupError("cannot use the data directory d:\nPermission denied")

    monkeypatch.setattr(sys.modules["amqp_server.server_process"], "run", run)

    assert refuse() == "cannot use the data directory d: Permission denied"


def test_the_exit_code_of_the_server_is_that_of_the_command(
    started: list[ServerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["amqp_server.server_process"], "run", lambda _config: 3)

    assert main([]) == 3
    assert started == []


def test_a_subcommand_owns_its_options(calls: list[str], started: list[ServerConfig]) -> None:
    assert main(["export", "--storage-path", "here"]) == 7

    assert (calls, started) == (["here"], [])


def test_a_server_option_before_a_subcommand_is_refused(refuse: Refuse, calls: list[str]) -> None:
    complaint = refuse("--storage-path", "here", "export")

    assert "'export' first" in complaint
    assert "amqp-server export --storage-path" in complaint
    assert calls == []


def test_a_subcommand_does_not_mind_the_settings_of_the_server(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PORT", "abc")
    monkeypatch.setenv("AMQP_SERVER_CONFIG", "/no/such/file")

    assert main(["export", "--storage-path", "here"]) == 7

    assert calls == ["here"]


def test_a_subcommand_whose_library_is_missing_says_what_to_install(
    refuse: Refuse, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")

    monkeypatch.setattr("cli.commands.importlib.import_module", load)

    assert refuse("export") == "this command needs pyspark: pip install 'amqp-server[spark]'"
    assert calls == []


def test_a_missing_module_of_ours_is_not_mistaken_for_an_extra() -> None:
    assert missing_library(ModuleNotFoundError("No module named 'ring'", name="ring")) is None
