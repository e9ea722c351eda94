"""What is seen of files that operators and their tools replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amqp_server.connections.tls.certificate_files import CertificateFiles
from amqp_server.connections.tls.settings import TlsSettings

NAMES = ("a.pem", "a.key", "b.pem", "b.key", "word", "ca.pem")


def files_in(directory: Path) -> CertificateFiles:
    paths = {name: str(directory / name) for name in NAMES}
    return CertificateFiles.of(
        TlsSettings(
            (paths["a.pem"], paths["b.pem"]),
            (paths["a.key"], paths["b.key"]),
            password_file=paths["word"],
            authorities=paths["ca.pem"],
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_file_counts_when_it_is_written_replaced_or_gone(tmp_path: Path, name: str) -> None:
    for each in NAMES:
        (tmp_path / each).write_text("one")
        os.utime(tmp_path / each, (1, 1))
    files = files_in(tmp_path)
    seen = [files.fingerprint()]
    assert files.fingerprint() == seen[0]
    path = tmp_path / name

    path.write_text("longer")
    os.utime(path, (1, 1))
    seen.append(files.fingerprint())
    os.utime(path, (2, 2))
    seen.append(files.fingerprint())
    # Another file of the same length and time in its place.
    other = tmp_path / "other"
    other.write_text("LONGER")
    os.utime(other, (2, 2))
    other.rename(path)
    seen.append(files.fingerprint())
    path.unlink()
    seen.append(files.fingerprint())

    assert len(set(seen)) == len(seen)


def test_files_behind_a_link_to_a_directory_count(tmp_path: Path) -> None:
    """Kubernetes replaces the link, when a secret has changed."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        for name in NAMES:
            (tmp_path / version / name).write_text(version)
    (tmp_path / "data").symlink_to("one")
    for name in NAMES:
        (tmp_path / name).symlink_to(f"data/{name}")
    files = files_in(tmp_path)
    before = files.fingerprint()

    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "data")

    assert not set(before) & set(files.fingerprint())
