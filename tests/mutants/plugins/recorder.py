"""A plugin of pytest: which test runs which lines, and for how long.

Loaded with `-p recorder`. Writes to the file that `MUTANTS_RECORD` names what it sees in the
folders that `MUTANTS_PACKAGES` names. It does not see what servers in other processes run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage


class Recorder:
    """Records while pytest runs.

    Args:
        repository: Root of the code and the tests.
        packages: Folders of the code.
        target: File to write when all has run.
    """

    def __init__(self, repository: Path, packages: list[str], target: Path) -> None:
        self._repository = repository
        self._target = target
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = Coverage(
            data_file=None,
            config_file=False,
            source=[str(repository / package) for package in packages],
            messages=False,
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if not report.passed:
            self._failed.add(name)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, int]] = {}
        for file in data.measured_files():
            path = str(Path(file).relative_to(self._repository))
            for line, names in data.contexts_by_lineno(file).items():
                for name in names:
                    of_test = lines.setdefault(name, {})
                    of_test[path] = of_test.get(path, 0) | 1 << line
        tests = {
            name: {
                "seconds": round(seconds, 3),
                "lines": {path: f"{bits:x}" for path, bits in lines.get(name, {}).items()},
            }
            for name, seconds in self._seconds.items()
            if name not in self._failed
        }
        self._target.write_text(json.dumps(tests))


def pytest_configure(config: pytest.Config) -> None:
    """Begin before anything of the project is imported."""
    packages = os.environ["MUTANTS_PACKAGES"].split(",")
    recorder = Recorder(config.rootpath, packages, Path(os.environ["MUTANTS_RECORD"]))
    config.pluginmanager.register(recorder, "lines of each test")
