"""Memory of the management server for each queue and connection that it lists."""

import base64
import re
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.errors import BenchError

_TIMES: Final = 3
_OK: Final = 200
_SECONDS_MAX: Final = 120
_GUEST: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


@dataclass(frozen=True, slots=True)
class ResidentMemory:
    """Memory of a process with its programs.

    Attributes:
        now_bytes: VmRSS.
        peak_bytes: VmHWM.
    """

    now_bytes: int
    peak_bytes: int

    @classmethod
    def of(cls, pid: int) -> "ResidentMemory":
        """Read it.

        Raises:
            BenchError: The process has ended, or there is no `/proc`.
        """
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError as error:
            raise BenchError(f"the memory of process {pid} is unknown") from error
        return cls(_field(text, "VmRSS"), _field(text, "VmHWM"))


def list_all(url: str, path: str) -> None:
    """Ask the management server for a list a few times.

    Args:
        url: Where the API is: `http://HOST:PORT`.
        path: What to ask for: `/api/queues`.

    Raises:
        BenchError: It refuses.
    """
    client = HTTPConnection(urlsplit(url).netloc, timeout=_SECONDS_MAX)
    try:
        for _ in range(_TIMES):
            client.request("GET", path, headers=_GUEST)
            answer = client.getresponse()
            answer.read()
            if answer.status != _OK:
                raise BenchError(f"GET {path} was answered with {answer.status}")
    finally:
        client.close()


def _field(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise BenchError(f"the process has no {name}")
    return int(found[1]) * 1024
