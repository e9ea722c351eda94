"""The sources of the Java client that Debian packages, and its test classes compiled.

They come from where apt gets its packages; nothing of them is kept in the repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.traffic.native.clients import ROOT_VARIABLE
from tests.servers import REPOSITORY

PACKAGE: Final = "librabbitmq-client-java"
ARCHIVE: Final = "rabbitmq-java-client_5.0.0.orig.tar.gz"
ARCHIVE_SHA256: Final = "23c185a4b241c60223e8a800472d674f3d8e8fc5688bf99abe6ccdfd55e64aeb"
BUILD: Final = REPOSITORY / "build" / "java-client"
JARS: Final = Path(os.environ.get(ROOT_VARIABLE, "/")) / "usr" / "share" / "java"
JAR_NAMES: Final = (
    *("amqp-client", "slf4j-api", "slf4j-nop", "junit4", "hamcrest-all", "junit-vintage-engine"),
    *("apiguardian-api", "opentest4j", "picocli", "junit-platform-commons"),
    *("junit-platform-console", "junit-platform-engine", "junit-platform-launcher"),
    *("junit-platform-reporting", "opentest4j-reporting-events"),
)
_PACKAGE: Final = "com/rabbitmq/client"
_LIST_OF_CLASSES: Final = "com/rabbitmq/client/test/functional/FunctionalTests.java"
_LINE: Final = re.compile(
    r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/(?:debian|ubuntu)\S*)\s+(\S+)\s+(.+)$", re.MULTILINE
)
"""A line of apt's older lists of places."""
_NO_LIST: Final = "public class FunctionalTests {}"


def class_path(*directories: Path) -> str:
    """Return the class path of the client, JUnit, and some directories of classes."""
    return ":".join(map(str, (*directories, *(JARS / f"{name}.jar" for name in JAR_NAMES))))


def compiled(names: Sequence[str]) -> Path:
    """Fetch the sources, if they are not there, and compile some of their tests.

    Args:
        names: Classes, without the name of the client's package.

    Returns:
        Directory of the compiled classes.
    """
    sources = _unpacked() / "src" / "test" / "java"
    with tempfile.TemporaryDirectory() as directory:
        # One class asks another whether it runs inside a list, and so needs that list, which names
        # a class that needs libraries that Debian does not have.
        stand_in = Path(directory) / _LIST_OF_CLASSES
        stand_in.parent.mkdir(parents=True)
        stand_in.write_text(f"package com.rabbitmq.client.test.functional; {_NO_LIST}")
        command = ["javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", class_path()]
        command += ["-sourcepath", f"{directory}:{sources}", "-d", str(BUILD / "classes")]
        files = (sources / _PACKAGE / f"{name.replace('.', '/')}.java" for name in names)
        _run(*command, *map(str, files))
    return BUILD / "classes"


def _unpacked() -> Path:
    """Return the directory of the sources."""
    archive = BUILD / ARCHIVE
    if not archive.exists() or _sha256(archive) != ARCHIVE_SHA256:
        _fetch()
    assert _sha256(archive) == ARCHIVE_SHA256, f"{archive} is another file than expected"
    with tarfile.open(archive) as opened:
        (top,) = {name.partition("/")[0] for name in opened.getnames()}
        if not (BUILD / top).exists():
            opened.extractall(BUILD, filter="data")
    return BUILD / top


def _fetch() -> None:
    """Let apt fetch the archive, from the places of its packages; its own lists stay as they are.

    Its exit status says nothing: other files of the source package are not needed, and may be
    missing.
    """
    lists = BUILD / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (lists / name).mkdir(parents=True, exist_ok=True)
    (lists / "places.sources").write_text(_source_places())
    options = {
        "Dir::Etc::sourcelist": lists / "places.sources",
        "Dir::Etc::sourceparts": "/nonexistent",
        "Dir::State::lists": lists / "lists",
        "Dir::Cache": lists / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    _run(*apt, "update")
    command = [*apt, "source", "--download-only", "--tar-only", PACKAGE]
    subprocess.run(command, cwd=BUILD, check=False, capture_output=True, text=True)


def _source_places() -> str:
    """Return where the distribution's own packages come from, with their sources."""
    found = [
        re.sub(r"^Types:.*$", "Types: deb-src", stanza.strip(), flags=re.MULTILINE)
        for path in sorted(Path("/etc/apt").rglob("*.sources"))
        for stanza in re.split(r"\n\s*\n", path.read_text())
        if re.search(r"^URIs:.*/(debian|ubuntu)", stanza, re.MULTILINE)
    ]
    found += [
        f"Types: deb-src\nURIs: {place}\nSuites: {suite}\nComponents: {components}"
        for path in sorted(Path("/etc/apt").rglob("*.list"))
        for place, suite, components in _LINE.findall(path.read_text())
    ]
    return "\n\n".join(found) + "\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
