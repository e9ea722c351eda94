"""A standalone Spark cluster on loopback: a master and two workers, each a process."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import pyspark

from tests.limits import HANG_SECONDS

QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that has little to do."""
_HOME: Final = Path(pyspark.__file__).parent


class Daemon:
    """A process of the cluster, whose log is waited for line by line."""

    def __init__(self, kind: str, *arguments: str, directory: Path) -> None:
        directory.mkdir()
        # Its workers have nothing of ours, so they cannot be asked to have it compiled.
        not_theirs = ("SPARK_", "AMQP_SERVER_")
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith(not_theirs)
        }
        environment |= {
            "SPARK_HOME": str(_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._lines: Queue[str] = Queue()
        self._process = subprocess.Popen(
            [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the next line of the log that matches."""
        seen = []
        while True:
            try:
                seen.append(self._lines.get(timeout=HANG_SECONDS))
            except Empty:
                raise AssertionError(f"no {pattern!r} in: {''.join(seen)}") from None
            if found := re.search(pattern, seen[-1]):
                return found

    def kill(self) -> None:
        """Kill it, as a power cut would; it need not run any more."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()


class Worker(Daemon):
    """A worker with one core."""

    def __init__(self, master: str, directory: Path) -> None:
        self.work = directory / "work"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1"]
        super().__init__(
            "worker.Worker",
            *arguments,
            "--memory",
            "1g",
            "--work-dir",
            str(self.work),
            master,
            directory=directory,
        )

    def processes(self, word: str = "") -> list[int]:
        """Return the ids of its executors and of their Python workers: those in its folder."""
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdecimal():
                continue
            try:
                inside = (process / "cwd").readlink().is_relative_to(self.work)
                command = (process / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue  # it has just ended, or is somebody else's
            if inside and word in command:
                found.append(int(process.name))
        return found

    def kill(self) -> None:
        """Kill it and all that it has started."""
        super().kill()
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


class Cluster:
    """A master and two workers."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self.events = directory / "events"
        self.events.mkdir()
        master = Daemon(
            "master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
            directory=directory / "master",
        )
        stack.callback(master.kill)
        self.url = master.wait_for(r"Starting Spark master at (\S+)")[1]
        self.workers = []
        for number in range(2):
            worker = Worker(self.url, directory / f"worker-{number}")
            stack.callback(worker.kill)
            self.workers.append(worker)
        for _ in self.workers:
            master.wait_for("Registering worker")

    def settings(self) -> dict[str, str]:
        """Return settings for an application: small executors, and a log of what they did."""
        return {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": self.events.as_uri(),
        }

    def take_events(self) -> list[dict[str, Any]]:
        """Return what happened in the one application since the last call."""
        [path] = self.events.iterdir()
        events = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return events


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[Cluster]:
    """Run a cluster; nothing of it is left at the end."""
    with ExitStack() as stack:
        yield Cluster(directory, stack)
