"""The files of `seen/`: each a name and what makes its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.frozen import amqp_answers, names
from tests.frozen.command_lines import COMMANDS, COMMANDS_AFTER, printed
from tests.frozen.normal_form import normal_form
from tests.management.conftest import ManagementOptions, ManagementServer
from tests.management.tools import walk
from tests.management.tools.api import Api
from tests.servers import RunningServer

_IDLE: Final = r'"idle_since\??"(?:: "str")?, '
KEPT: Final = Path(__file__).parent / "seen"


def texts(directory: Path) -> dict[str, str]:
    """Return the text of each file, by its name.

    Args:
        directory: Where servers may have their data; empty.
    """
    return {
        "commands.txt": names.helps(),
        "names.txt": _names(),
        **_told_by_a_server(directory / "asked"),
        **_told_by_an_api(directory / "walked"),
    }


def _names() -> str:
    families = {
        "entry points": names.entry_points(),
        "modules that python -m starts": names.modules_to_start(),
        "imports of programs on the pages": names.imports_of_pages(),
        "loggers": names.loggers(),
    }
    return "\n".join(
        f"# {title}\n" + "\n".join(family) + "\n" for title, family in families.items()
    )


def _told_by_a_server(directory: Path) -> dict[str, str]:
    """Return what one server answers by AMQP and the command line, writes and logs."""
    directory.mkdir()
    with RunningServer(directory / "data", "--offset-checkpoint-interval", "1h") as server:
        server.start()
        place = server.storage_path
        amqp = list(amqp_answers.answers(server.address))
        lines = list(printed(COMMANDS, place))
        assert server.terminate() == 0
        # A deletion goes on behind its reply, but not behind the stop.
        documents = list(_documents(place, directory))
        lines += printed(COMMANDS_AFTER, place)
    assert not server.faults, server.faults
    found = {
        "amqp.txt": amqp,
        "command_line.txt": lines,
        "documents.txt": documents,
        "audit.txt": list(_audit(place)),
        "log.txt": list(map(str.rstrip, server.messages)),
    }
    normal = {
        name: [normal_form(text, directory, Path.cwd()) for text in texts]
        for name, texts in found.items()
    }
    # Connections end beside those that begin.
    for name in ("audit.txt", "log.txt"):
        normal[name].sort()
    return {name: "\n".join(texts) for name, texts in normal.items()}


def _documents(storage_path: Path, directory: Path) -> list[str]:
    """Return the documents of a data directory, each below its path.

    What the checksum of a document is depends on its ids; that it is right, each start checks.
    """
    found = []
    for path in storage_path.glob("metadata/**/*.json"):
        place = path.relative_to(storage_path)
        text = normal_form(f"# {place}\n{path.read_text()}", directory)
        found.append(re.sub(r'"crc32c": "[0-9a-f]{8}"', '"crc32c": "<checksum>"', text))
    return sorted(found)


def _audit(storage_path: Path) -> Iterator[str]:
    """Yield the events that were recorded, without the moment of each."""
    for path in storage_path.glob("audit/*"):
        for line in path.read_text().splitlines():
            yield json.dumps({**json.loads(line), "time": "<time>"})


def _told_by_an_api(directory: Path) -> dict[str, str]:
    """Return the answers of the HTTP API, and the names of the metrics."""
    directory.mkdir()
    with RunningServer(directory / "data", *ManagementOptions) as server:
        server.start()
        management = ManagementServer(server)
        parts = urlsplit(management.url)
        answers = walk.walk(Api(parts.hostname or "", parts.port or 0, management.amqp_port))
        pages = ("/metrics", "/metrics/per-object", "/metrics/detailed")
        metrics = {
            name
            for page in pages
            for name in re.findall(
                r"^# TYPE (.*)$",
                management.get(page, url=management.metrics_url).body.decode(),
                re.MULTILINE,
            )
        }
        lines = [
            f"{title}: {json.dumps(answer, sort_keys=True)}" for title, answer in answers.items()
        ]
    return {
        # Whether a channel is idle for a moment depends on the machine.
        "http.txt": normal_form(re.sub(_IDLE, "", "\n".join(lines)), directory),
        "metrics.txt": "\n".join(sorted(metrics)),
    }
