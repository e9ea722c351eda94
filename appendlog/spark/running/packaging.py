"""The package's sources as one archive for `--py-files`; deprecated, `DEPRECATION` says why.

Python cannot load compiled kernels from an archive, so workers decode with the interpreted ones.
They also need `pyspark[sql]`, `crc32c`, and `zstandard` where logs are packed.
"""

import atexit
import io
import os
import shutil
import sys
import tempfile
import warnings
import zipfile
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DEPRECATION: Final = (
    "the workers get amqp-server as an archive of its sources, which decodes slowly and which the "
    "next version does not send any more: install 'amqp-server[spark]' on the workers and give "
    "--spark-conf spark.submit.pyFiles= (empty), or send a packed environment with --spark-conf "
    "spark.archives=env.tar.gz#env and PYSPARK_PYTHON=./env/bin/python "
    "(docs/spark-clusters.md, Packaging)"
)
"""Warning to users whose workers get the archive; it says what to do instead."""

PACKAGES: Final = ("appendlog", "metadata", "offsets", "pyspark_amqplog")
"""Packages in the archive, if they are installed: they read logs, definitions and settlement. No
server, no commands, nothing compiled."""

ARCHIVES_KEPT: Final = 8
"""Newest archives that stay in the cache directory."""

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o644 << 16


def build_package() -> Path:
    """Return the archive for a user's own job, with a warning that it is deprecated."""
    warnings.warn(DEPRECATION, FutureWarning, stacklevel=2)
    return package_archive()


def package_archive() -> Path:
    """Return the archive of the packages that are installed here; write it if it is absent.

    The same sources give the same bytes under the same name, in the user's cache directory. If
    that directory cannot be written, the archive lies in a temporary one, which this process
    removes at its end. A process that runs from such an archive returns that one.
    """
    archive = _archive_of(PACKAGES[0])
    if archive is not None:
        return archive
    content = package_bytes()
    name = f"amqplog-{sha256(content).hexdigest()[:16]}.zip"
    for directory in (cache_directory(), None):
        try:
            return _stored(directory or _temporary_directory(), name, content)
        except OSError:
            if directory is None:
                raise
    raise AssertionError("unreachable")


def package_bytes() -> bytes:
    """Return the archive's bytes; they depend on the sources alone."""
    files = {name: path for package in PACKAGES for name, path in _sources(package).items()}
    buffer = io.BytesIO()
    # Not compressed: compression differs from one zlib to the next, and imports would be slower.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, path in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.external_attr = _READABLE
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def cache_directory() -> Path:
    """Return the directory for files of this user that programs can make again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "amqp-server"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "amqp-server"


def _archive_of(package: str) -> Path | None:
    """Return the archive that a package was imported from; None if it lies in a directory."""
    spec = find_spec(package)
    archive = getattr(spec.loader, "archive", None) if spec else None
    return None if archive is None else Path(archive)


def _sources(package: str) -> dict[str, Path]:
    """Return the modules of a package, by their names in the archive."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return {}
    root = Path(next(iter(spec.submodule_search_locations)))
    return {path.relative_to(root.parent).as_posix(): path for path in root.rglob("*.py")}


def _stored(directory: Path, name: str, content: bytes) -> Path:
    """Return a file of the directory with this content; write it if it is absent or damaged."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / name
    if not path.is_file() or path.read_bytes() != content:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=name, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
        _remove_oldest(directory)
    return path


def _remove_oldest(directory: Path) -> None:
    """Remove the oldest archives; jobs may be about to send one of the others."""
    with suppress(OSError):
        made = sorted(directory.glob("amqplog-*.zip"), key=lambda path: path.stat().st_mtime_ns)
        for path in made[:-ARCHIVES_KEPT]:
            path.unlink()


def _temporary_directory() -> Path:
    directory = tempfile.mkdtemp(prefix="amqp-server-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)
