"""No release with a known advisory satisfies a requirement of the package.

A lower bound is a promise: whoever installs with the oldest releases that the package allows has
none of these faults. An advisory for a newer release is a row here, and a higher bound.
"""

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())
FIRST_WITHOUT = [
    # The server gave a client any time for its headers; memory without a bound.
    ("aiohttp", "3.14.5", "GHSA-5wr8-gcqf-gqf3, GHSA-2g87-pp6c-29x5"),
    # Several Host headers; trailers without a bound.
    ("aiohttp", "3.13.4", "CVE-2026-34525, CVE-2026-22815"),
    # Deep nesting overflows the stack.
    ("orjson", "3.11.6", "CVE-2025-67221"),
    # Another algorithm than those that are allowed; a public key as an HMAC secret.
    ("pyjwt", "2.13.0", "GHSA-jq35-7prp-9v3f, GHSA-xgmm-8j9v-c9wx"),
    # Unknown headers in `crit` are taken.
    ("pyjwt", "2.12.0", "CVE-2026-32597"),
    # An old OpenSSL in its wheels.
    ("cryptography", "48.0.1", "GHSA-537c-gmf6-5ccf"),
    # Buffers that are not contiguous overflow.
    ("cryptography", "46.0.7", "CVE-2026-39892"),
    # Use after free when it reads files; not by way of Python.
    ("pyarrow", "23.0.1", "CVE-2026-25087"),
    # The history server runs code from event logs.
    ("pyspark", "4.0.1", "CVE-2025-54920"),
    # Decompression without a bound; headers sent on to another host.
    ("urllib3", "2.7.0", "CVE-2026-44432, CVE-2026-44431"),
    # Any path of an index's file name, while the package is built.
    ("setuptools", "78.1.1", "CVE-2025-47273"),
]


def numbers(version: str) -> tuple[int, ...]:
    """Return a version to be compared; `3.14` is `3.14.0`."""
    return (*map(int, version.split(".")), 0, 0)[:3]


def lower_bounds() -> list[tuple[str, str]]:
    """Return name and lower bound of each requirement of users and of the build."""
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    wanted += [each for each in PROJECT["dependency-groups"]["build"] if isinstance(each, str)]
    found = [
        re.fullmatch(r"([\w-]+)(?:\[[\w,-]+\])?>=([\d.]+)(?:,<[\d.]+)?", each) for each in wanted
    ]
    assert all(found), wanted
    return [(each[1].lower(), each[2]) for each in found if each]


@pytest.mark.parametrize(("package", "fixed", "advisories"), FIRST_WITHOUT)
def test_the_oldest_release_that_is_allowed_has_no_known_advisory(
    package: str, fixed: str, advisories: str
) -> None:
    bounds = [bound for name, bound in lower_bounds() if name == package]
    assert bounds
    for bound in bounds:
        assert numbers(bound) >= numbers(fixed), f"{package}>={bound} allows {advisories}"
