"""A Python as a cluster has it: what `pip install "pyspark[sql]"` brings, and chosen packages."""

import os
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark

FROM_PYSPARK: Final = (
    "pyspark",
    "py4j",
    "pyarrow",
    "numpy",
    "numpy.libs",
    "pandas",
    "pandas.libs",
    "dateutil",
    "pytz",
    "tzdata",
    "six.py",
)
OURS_OR_OF_THE_SERVER: Final = (
    "aiofiles",
    "amqp_server",
    "appendlog",
    "cli",
    "click",
    "crc32c",
    "metadata",
    "offsets",
    "orjson",
    "uvloop",
    "zstandard",
)


class CleanPython:
    """A virtual environment without pip: links to the packages that these tests run with.

    Args:
        directory: Where to make it.
        archives: Put on its path, as `--py-files` does.
        packages: Others that are installed there.
    """

    def __init__(self, directory: Path, *archives: Path, packages: Sequence[str] = ()) -> None:
        venv.EnvBuilder(symlinks=True).create(directory)
        self.executable = directory / "bin" / "python"
        self.site_packages = next(directory.glob("lib/python*/site-packages"))
        installed = Path(pyspark.__file__).parents[1]
        for name in (*FROM_PYSPARK, *packages):
            if (installed / name).exists():
                (self.site_packages / name).symlink_to(installed / name)
        path = os.pathsep.join(map(str, archives))
        self.environment = {
            "HOME": str(directory),
            "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(self.executable),
            "SPARK_HOME": str(self.site_packages / "pyspark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if java := os.environ.get("JAVA_HOME"):
            self.environment["JAVA_HOME"] = java
        self._path = {"PYTHONPATH": path} if archives else {}

    def run(self, program: str, *arguments: str, seconds_max: int = 60) -> str:
        """Run a program (text) and return what it prints.

        Raises:
            AssertionError: It failed; with what it said.
        """
        return self.run_command(self._command(program, *arguments), self._path, seconds_max)

    def fail(self, program: str, *arguments: str, seconds_max: int = 60) -> str:
        """Run a program (text) that fails and return its standard error.

        Raises:
            AssertionError: It did not fail.
        """
        done = self._ended(self._command(program, *arguments), self._path, seconds_max)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self.executable), "-P", "-c", program, *arguments]

    def run_command(
        self, command: list[str], variables: dict[str, str], seconds_max: int = 60
    ) -> str:
        """Run a command in this environment and return what it prints.

        Raises:
            AssertionError: It failed; with what it said.
        """
        done = self._ended(command, variables, seconds_max)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _ended(
        self, command: list[str], variables: dict[str, str], seconds_max: int
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment | variables,
            cwd=self.executable.parent,
            timeout=seconds_max,
        )
