"""The command that `--print-spark-submit` prints; tests/spark/submitted_archive.py runs one."""

import shlex
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from appendlog.spark.running.packaging import DEPRECATION
from cli.export import export
from cli.spark_submit import spark_submit_line


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def printed(*arguments: str) -> list[str]:
    """Return the words that a shell makes of what is printed."""
    result = CliRunner().invoke(export, [*arguments, "--print-spark-submit"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 5
    assert result.stderr == f"warning: {DEPRECATION}\n"
    return shlex.split(result.stdout.replace("\\\n", ""))


def test_it_runs_our_program_with_the_archive_and_the_options_that_were_given(
    tmp_path: Path,
) -> None:
    words = printed("--queue", "it's all", "--out", "lake", "--since", "last", "--master", "yarn")
    assert words[1:3] == ["--master", "yarn"]
    assert f"spark.pyspark.driver.python={sys.executable}" in words
    package, program = words[words.index("--py-files") + 1 : words.index("--storage-path")]
    assert Path(package).parent == tmp_path / "cache" / "amqp-server"
    assert Path(program).name == "export_job.py"
    assert words[words.index("--storage-path") :] == [
        *("--storage-path", str(tmp_path / "data"), "--out", str(tmp_path / "lake")),
        *("--queue", "it's all", "--since", "last", "--master", "yarn"),
    ]
    compile(Path(program).read_text(), program, "exec")


def test_places_are_absolute_however_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_STORAGE_PATH", "from here")
    words = printed("--out=/lake", "--queue=a")
    assert words[-5:] == [
        *("--storage-path", str(tmp_path / "from here"), "--out", "/lake", "--queue=a")
    ]
    words = printed("--storage-path=x", "--queue=a", "--out", "y")
    assert words[-5:] == [
        *("--storage-path", str(tmp_path / "x"), "--out", str(tmp_path / "y"), "--queue=a")
    ]


def test_a_url_stays_a_url() -> None:
    line = spark_submit_line(["--queue", "a"], "yarn", "s3://logs/data", "s3://lake/x")
    assert "--storage-path s3://logs/data" in line
    assert "--out s3://lake/x" in line


def test_what_the_export_refuses_is_not_printed() -> None:
    result = CliRunner().invoke(export, ["--out", "lake", "--print-spark-submit"])
    assert result.exit_code == click.UsageError.exit_code
    assert "--queue" in result.output
