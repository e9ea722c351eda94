"""The captured log is pytest's own, also after a test of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)


def test_a_logger_of_pyspark_does_not_change_the_log_of_later_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    pytester.makepyfile(
        """
        import logging
        from pyspark.logger import PySparkLogger

        def test_of_spark():
            PySparkLogger.getLogger("QueryContextLogger").propagate = False

        def test_behind_it(caplog):
            try:
                1 / 0
            except ZeroDivisionError:
                logging.getLogger("ours").exception("failed")
            assert "ZeroDivisionError: division by zero" in caplog.text
        """
    )

    pytester.runpytest_subprocess("-p", "tests.captured_log").assert_outcomes(passed=2)
