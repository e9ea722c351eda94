"""A reader who does what a page says: its blocks, from top to bottom, in one directory.

Runs inside a machine of its own: `python -m tests.docs.reader`, with a page's blocks as JSON at its
input. Shell commands share one shell, programs in Python one namespace. What does not end by
itself, such as a server, has a window of its own, in which one thing runs at a time.

The last line that it prints is JSON: the problems found, each with the line of its block.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HANG_SECONDS: Final = 120
"""Limit of one block, in seconds."""
_END: Final = "==end of block=="
_PLACE: Final = Path("/root/shop")
_READY: Final = "Server startup complete"
_SERVER: Final = re.compile(r"\bamqp-server(?= -|\s*$|\s+#)")
_DATA: Final = ("/var/lib/amqp-server", "/var/lib/amqp")
_ALIVE_SECONDS: Final = 3
"""After so long, what has no line of a server to wait for is taken to run."""


@dataclass
class Window:
    """What runs until it is stopped, if anything.

    Attributes:
        process: Its process, the leader of its group.
    """

    process: subprocess.Popen[bytes] | None = None

    def start(self, script: str) -> None:
        """Stop what runs, and run a script that does not end; return when it is at work.

        Raises:
            AssertionError: It ended by itself.
        """
        self.stop()
        said = Path("/tmp/window")
        with said.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-euc", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        begin = time.monotonic()
        while _READY not in (text := said.read_text(errors="replace")):
            code = self.process.poll()
            assert code is None, f"ended by itself with code {code}: {text}"
            seconds = time.monotonic() - begin
            assert seconds < HANG_SECONDS, f"not ready: {text}"
            if seconds > _ALIVE_SECONDS and not _SERVER.search(script):
                return
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop what runs, as Control-C does."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT)
            self.process.wait(HANG_SECONDS)
            self.process = None


def _new_shell() -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-u"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _answer(screen: int) -> None:
    """Answer each question for a password; then agree to what is asked next."""
    while shown := os.read(screen, 4096):
        # Not before it is asked: what was typed earlier is thrown away then.
        if re.search(rb": ?$", shown):
            os.write(screen, b"secret\n")
            # And when it has been taken.
            threading.Timer(1, os.write, (screen, b"y\n")).start()


def _on_alarm(*_: object) -> None:
    raise TimeoutError(f"it takes more than {HANG_SECONDS} s")


class Reader:
    """The reader of one page.

    Args:
        page: Name of the page, for tracebacks.
    """

    def __init__(self, page: str) -> None:
        self.window = Window()
        self._page = page
        self._names: dict[str, Any] = {"__name__": "__main__"}
        # Commands that ask look whether somebody sits there.
        self._screen, terminal = os.openpty()
        self._keyboard = os.ttyname(terminal)
        threading.Thread(target=_answer, args=(self._screen,), daemon=True).start()
        self._shell = _new_shell()

    def do(self, language: str, text: str, line: int, remark: str) -> None:
        """Do what a block says.

        Raises:
            AssertionError: It failed, or printed something else than the page says.
            TimeoutError: It did not end.
        """
        if remark == "server stopped":
            self.window.stop()
        if remark == "until stopped":
            *first, last = re.split(r"(?<!\\)\n", text.rstrip("\n"))
            self.shell("\n".join(first))
            self.window.start(last)
        elif language == "sh":
            self.shell(text)
        elif language == "console":
            self.console(text)
        elif language == "sql":
            self.sql(text)
        else:
            self.python(text, line)
        if remark == "server stopped":
            self.window.start("amqp-server")

    def shell(self, script: str) -> str:
        """Run commands in the shell of the page; return what they print.

        Raises:
            AssertionError: One of them failed.
        """
        block = Path("/tmp/block")
        # Not `set -e`, which would end the shell that the next blocks need.
        block.write_text(f"trap 'echo \"failed: $BASH_COMMAND\"; return 9' ERR\n{script}\n")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # Of questions for yes or no only the output tells.
        os.write(self._screen, b"y\n")
        self._shell.stdin.write(
            f"source {block} <{self._keyboard}; _code=$?; trap - ERR; echo; echo '{_END}' $_code\n"
        )
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(_END):
                assert line.split()[-1] == "0", "".join(printed)
                return "".join(printed).removesuffix("\n")
            printed.append(line)
        self._shell = _new_shell()
        raise AssertionError(f"the shell ended: {''.join(printed)}")

    def renew_shell(self) -> None:
        """End the shell with what runs in it, and start another one."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._shell = _new_shell()

    def python(self, source: str, line: int) -> None:
        """Run a program in the namespace of the page."""
        padding = "\n" * (line - 1)
        exec(compile(padding + source, self._page, "exec"), self._names)

    def sql(self, source: str) -> None:
        """Run statements in the Spark session of the page's programs."""
        for statement in source.split(";"):
            if statement.strip():
                self._names["spark"].sql(statement).collect()

    def console(self, session: str) -> None:
        """Run the commands of a session, and compare what each of them prints."""
        for command, documented in parts_of(session):
            printed = self.shell(command)
            assert matches(documented, printed), f"$ {command}\n{printed}"


def parts_of(session: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a session, and what the page says that it prints."""
    for part in re.split(r"^[$#] ", session, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = 1
        while lines[count - 1].endswith("\\"):
            count += 1
        # The lines of a quoted text, or of a document.
        while count < len(lines) and "\n".join(lines[:count]).count("'") % 2:
            count += 1
        yield "\n".join(lines[:count]), "\n".join(lines[count:]).strip("\n")


def matches(documented: str, printed: str) -> bool:
    """Return whether a command has printed what the page says.

    Numbers, times, a dash for one and widths of columns may differ; `...` stands for anything.
    Where the page shows nothing, anything may be printed.
    """
    if not documented:
        return True
    pattern = "".join(
        ".*" if part == "..." else re.escape(part)
        for part in re.split(r"(\.\.\.)", plain(documented))
    )
    return re.fullmatch(pattern, plain(printed), re.DOTALL) is not None


def plain(text: str) -> str:
    """Return a text with each number, or a dash in its place, as 0, and one space for many."""
    text = re.sub(r"\b[0-9a-f]{8,}\b", "0", text)
    text = re.sub(r"\d+(\.\d+)*|(?<=\s)-(?=\s)", "0", text)
    lines = (re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(lines).strip()


def read(page: dict[str, Any]) -> list[str]:
    """Do what a page says; return the problems, each with the line of its block."""
    problems: list[str] = []
    reader = Reader(page["name"])
    blocks = [
        *([[0, "sh", "amqp-server", "until stopped"]] if page["server"] else []),
        [0, "sh", page["shell"], ""],
        [0, "python", page["python"], ""],
        *page["blocks"],
    ]
    for line, language, text, remark in blocks:
        said = io.StringIO()
        signal.alarm(HANG_SECONDS)
        try:
            with contextlib.redirect_stdout(said):
                reader.do(language, text, line, remark)
        except TimeoutError as error:
            problems.append(f"line {line}: {error}")
            reader.renew_shell()
        except BaseException as error:  # noqa: BLE001 - told by the page's line
            what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            problems.append(f"line {line}: {what}\n{said.getvalue()}")
            if not line:
                break
        finally:
            signal.alarm(0)
    reader.window.stop()
    return problems


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _on_alarm)
    _PLACE.mkdir(parents=True)
    os.chdir(_PLACE)
    # Where the pages say that the data is: beside the reader, or where a package puts it.
    subprocess.run(["rm", "-rf", *_DATA], check=True)
    for path in _DATA:
        Path(path).symlink_to(_PLACE / "data")
    found = read(json.load(sys.stdin))
    print(json.dumps(found))
