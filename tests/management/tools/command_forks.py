"""Runs a Python program many times: each run is a fork of a process that has the imports already.

    python -m tests.management.tools.command_forks PROGRAM

reads one run a line, `[arguments, text for standard input]`, and answers each with a line
`[exit status, output, errors]`. A run takes some milliseconds instead of a hundred.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from typing import IO, Final

_IMPORTED: Final = ("configparser", "http.client", "optparse", "socket", "ssl", "urllib.parse")


def main(program: str) -> None:
    """Serve until the input ends."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        arguments, text = json.loads(line)
        print(json.dumps(_run(program, arguments, text)), flush=True)


def _run(program: str, arguments: list[str], text: str) -> tuple[int, str, str]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as given,
        tempfile.TemporaryFile("w+", encoding="utf-8") as printed,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        given.write(text)
        given.seek(0)
        child = os.fork()
        if not child:
            _be(program, arguments, (given, printed, errors))
        _, status = os.waitpid(child, 0)
        for each in (printed, errors):
            each.seek(0)
        return os.waitstatus_to_exitcode(status), printed.read(), errors.read()


def _be(program: str, arguments: list[str], streams: tuple[IO[str], IO[str], IO[str]]) -> None:
    """Run the program in this process, and end it."""
    status = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        sys.stdin = streams[0]
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
