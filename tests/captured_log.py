"""Keeps the captured log as pytest writes it, whatever loggers an earlier test has left.

pytest adds its handlers to loggers that do not propagate. One of PySpark's, made for an exception
of a query, gives each handler a format of its own: all later tests of the process would read JSON
in `caplog.text`.
"""

from __future__ import annotations

import logging

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Give the handlers their own format again, and keep them from such loggers."""
    for logger in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and type(logger).__module__.startswith("pyspark."):
            logger.propagate = True
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    assert plugin is not None, "it is part of pytest"
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(plugin.formatter)
