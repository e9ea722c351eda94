"""`amqp-server config show`: each setting, its source, and no secret."""

import json
from pathlib import Path

import pytest

from cli.main import command, main
from cli.settings import ServerOption

SECRET = "hunter2-secret"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Write a file of RabbitMQ's and one of ours; return their paths."""
    rabbitmq, ours = tmp_path / "rabbitmq.conf", tmp_path / "server.toml"
    rabbitmq.write_text(
        "listeners.tcp.1 = 127.0.0.1:5673\n# secret\ndefault_user = ops\n"
        f"default_pass = {SECRET}\nheartbeat = 30\nchannel_max = 9\ncluster_name = x\n"
    )
    ours.write_text("max-channels = 50\n")
    return str(rabbitmq), str(ours)


def show(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, tuple[str | None, str, str]]:
    """Return value, source and place by setting."""
    assert main(["config", "show", "--json", *arguments]) == 0
    written = capsys.readouterr().out
    assert SECRET not in written
    rows = json.loads(written)["settings"]
    return {row["option"]: (row["value"], row["source"], row["place"]) for row in rows}


def test_every_setting_is_shown_with_its_default(
    clean_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = show(capsys)

    options = {param.key for param in command.params if isinstance(param, ServerOption)}
    assert shown.keys() == options - {"ephemeral"} | {"default-pass"}
    assert {source for _, source, _ in shown.values()} == {"default"}
    assert shown["ring-bytes"][0] == "16MiB"
    assert shown["segment-age"][0] == "7d"
    assert shown["memory-watermark"][0] == "0.6"
    assert shown["protect-unconsumed"][0] == "true"
    assert shown["default-pass"][0] == "***"
    assert shown["tls-ca"][0] is None
    assert show(capsys, "--changed") == {}


def test_what_is_shown_is_accepted_as_an_option(
    clean_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = show(capsys)
    flags = {
        param.key for param in command.params if isinstance(param, ServerOption) and param.is_flag
    }
    arguments = [
        f"--{option}={value}"
        for option, (value, _, _) in shown.items()
        if value is not None
        and option not in flags | {"default-pass"}
        and not option.startswith("tls-")
    ]

    again = show(capsys, *arguments)
    assert {name: row[0] for name, row in again.items()} == {
        name: row[0] for name, row in shown.items()
    }


def test_each_source_is_named(
    clean_environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: tuple[str, str],
) -> None:
    rabbitmq, ours = files
    clean_environment.setenv("AMQP_SERVER_HEARTBEAT", "9s")
    clean_environment.setenv("RABBITMQ_DEFAULT_VHOST", "shop")

    shown = show(
        capsys, "--changed", "--rabbitmq-conf", rabbitmq, "--config", ours, "--log-level", "debug"
    )

    assert shown == {
        "log-level": ("debug", "command line", "--log-level"),
        "heartbeat": ("9s", "environment", "AMQP_SERVER_HEARTBEAT"),
        "default-vhost": ("shop", "environment", "RABBITMQ_DEFAULT_VHOST"),
        "max-channels": ("50", "file", f"{ours}: max-channels"),
        "host": ("127.0.0.1", "file", f"{rabbitmq}:1: listeners.tcp.1"),
        "port": ("5673", "file", f"{rabbitmq}:1: listeners.tcp.1"),
        "default-user": ("ops", "file", f"{rabbitmq}:3: default_user"),
        "default-pass": ("***", "file", f"{rabbitmq}:4: default_pass"),
        "config": (ours, "command line", "--config"),
        "rabbitmq-conf": (rabbitmq, "command line", "--rabbitmq-conf"),
    }


def test_a_password_in_a_file_or_variable_is_not_shown(
    clean_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    clean_environment.setenv("RABBITMQ_DEFAULT_PASS", SECRET)
    assert show(capsys)["default-pass"] == ("***", "environment", "RABBITMQ_DEFAULT_PASS")

    path = tmp_path / "word"
    path.write_text(SECRET)
    shown = show(capsys, "--default-pass-file", str(path))
    assert shown["default-pass"] == ("***", "file", str(path))
    assert shown["default-pass-file"] == (str(path), "command line", "--default-pass-file")


def test_people_get_a_table_and_warnings_beside_it(
    clean_environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: tuple[str, str],
) -> None:
    clean_environment.setenv("AMQP_SERVER_PROT", "1")
    assert main(["config", "show", "--changed", "--rabbitmq-conf", files[0]]) == 0

    written = capsys.readouterr()
    lines = written.out.splitlines()
    assert lines[0].split() == ["setting", "value", "from"]
    assert "heartbeat      30s" in written.out
    assert SECRET not in written.out + written.err
    assert written.err.splitlines() == [
        "warning: environment variable AMQP_SERVER_PROT is no setting: did you mean "
        "AMQP_SERVER_PORT?",
        f"warning: keys of RabbitMQ that have no effect here: cluster_name ({files[0]}:7): "
        "there is no cluster",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "70000"], "--port: 70000 is out of bounds: write 0 to 65535"),
        (["--tls-port", "1"], "--tls-port: has no effect without --tls-certificate"),
        (["--config", "absent.toml"], "absent.toml: No such file or directory"),
        (["--prot", "1"], "No such option"),
        (["--default-user", "ops"], "user 'ops' needs a password"),
    ],
)
def test_what_a_start_would_refuse_is_refused(
    clean_environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    assert main(["config", "show", *arguments]) == 2

    written = capsys.readouterr()
    assert written.out == ""
    assert complaint in written.err


def test_an_option_before_the_command_is_refused(
    clean_environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--port", "1", "config", "show"]) == 2
    assert "--port before 'config'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--tls-certificate", "none.pem"),
            "cannot read the TLS certificate none.pem: No such file or directory",
        ),
        (
            ("--management-tls-certificate", "none.pem"),
            "cannot read the TLS certificate none.pem: No such file or directory "
            "(for the management server)",
        ),
        (("--load-definitions", "none.json"), "--load-definitions none.json: "),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_missing_file_is_refused_as_by_a_start(
    clean_environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: tuple[str, ...],
    expected: str,
    form: tuple[str, ...],
) -> None:
    clean_environment.chdir(tmp_path)

    assert main(["config", "show", *form, *options]) == 2

    written = capsys.readouterr()
    assert expected in written.err
    # The settings are shown all the same: they say where the name of the file comes from.
    assert options[0].removeprefix("--") in written.out
