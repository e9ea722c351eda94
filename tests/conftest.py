"""Fixtures that every test may use, the profiles of Hypothesis, and the order of tests."""

import gc
import os
import random
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import NO_MANAGEMENT, RunningServer
from tests.swept_server import ServerKeeper

# For what a test starts by itself: the default ports are for one server of the machine.
os.environ.update(NO_MANAGEMENT)

pytest_plugins = ("tests.second_look.plugin", "tests.slices", "tests.captured_log")

# Tests must not fail by chance: the same examples each time. The long run looks for new ones.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=int(os.environ.get("LONG_EXAMPLES", "5000")),
    print_blob=True,
    # A night's run shares its machine: an example that is slow there is no mistake of the test.
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
settings.load_profile(PROFILE)
SEED_BITS = 32


class StartServer(Protocol):
    """Starts a real server; see `start_server`."""

    def __call__(
        self,
        *options: str,
        environment: dict[str, str] | None = None,
        interpreted: bool = False,
        storage_path: Path | None = None,
        open_files: int | None = None,
    ) -> RunningServer:
        """Return it when it listens."""


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start real servers that are killed after the test.

    Each has a data directory of its own below `tmp_path`, unless one is named, and takes options
    of the command line. A server that logged an error or a traceback fails the test, unless the
    test has set `may_fail`.
    """
    with ExitStack() as running:
        servers: list[RunningServer] = []

        def start(
            *options: str,
            environment: dict[str, str] | None = None,
            interpreted: bool = False,
            storage_path: Path | None = None,
            open_files: int | None = None,
        ) -> RunningServer:
            path = storage_path or tmp_path / f"data-{len(servers)}"
            server = RunningServer(
                path,
                *options,
                environment=environment,
                interpreted=interpreted,
                open_files=open_files,
            )
            servers.append(running.enter_context(server))
            return server.start()

        yield start
    faults = [fault for server in servers if not server.may_fail for fault in server.faults]
    assert not faults, "".join(line for server in servers for line in server.messages)


@pytest.fixture
def server(start_server: StartServer) -> RunningServer:
    """Start one real server with the default options."""
    return start_server()


@pytest.fixture(scope="session")
def server_keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerKeeper]:
    """Keep one server for all tests of this process that ask for `swept_server`."""
    keeper = ServerKeeper(tmp_path_factory.mktemp("swept"))
    yield keeper
    keeper.end()


@pytest.fixture
def swept_server(server_keeper: ServerKeeper) -> Iterator[RunningServer]:
    """Give a real server as `server` does, empty, but perhaps not for the first time."""
    yield server_keeper.lend()
    server_keeper.take_back()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give a random search a seed of its own, unless one was asked for."""
    if PROFILE == "long" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.getrandbits(SEED_BITS))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how a random search is done again."""
    if PROFILE != "long":
        return None
    seed = config.option.hypothesis_seed
    return f"random examples: HYPOTHESIS_PROFILE=long pytest --hypothesis-seed={seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left alone with it at the end.

    Spark's come before all: the first of several processes gets them, and only it starts a Java.
    With `--timeout=0` no test has a limit, nor those that name one of their own.
    """
    if config.getoption("timeout") == 0:
        for item in items:
            item.add_marker(pytest.mark.timeout(0), append=False)
    items.sort(key=lambda item: (not _has(item, "spark"), not _has(item, "long")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector: what they are made of stays until the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests of the run, for an eighth of its time."""
    gc.collect()
    gc.freeze()


def _has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None
