"""What the tests and the build run with stands still: every requirement has one version.

`constraints.txt` is made by `make upgrade`, for each Python that the package supports. Only what it
lists is installed by `make setup`, so no release of a client, a plugin or Spark turns a test red by
itself.
"""

import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
CONSTRAINTS = [
    line
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
    if not line.lstrip().startswith("#")
]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PINNED = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.]+( ; .+)?")
"""A name, a version and perhaps a marker: no address, no hash, no extra, which pip forbids here."""


def versions(python: str) -> dict[str, Version]:
    """Return the version of each package for a Python on Linux."""
    # Of two releases, one is often for those before 3.12.0.
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.99",
        "sys_platform": "linux",
    }
    found: dict[str, Version] = {}
    for requirement in map(Requirement, CONSTRAINTS):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (pinned,) = requirement.specifier
            assert requirement.name not in found, requirement
            found[canonicalize_name(requirement.name)] = Version(pinned.version)
    return found


def requirements() -> Iterator[Requirement]:
    """Yield what users, the build and development ask for."""
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        wanted += extra
    for group in PROJECT["dependency-groups"].values():
        wanted += [each for each in group if isinstance(each, str)]
    yield from map(Requirement, wanted)


def test_a_constraint_is_a_version_and_nothing_else() -> None:
    assert [line for line in CONSTRAINTS if not PINNED.fullmatch(line)] == []


def test_the_pythons_are_those_that_the_package_names() -> None:
    name = "Programming Language :: Python :: 3."
    named = [each for each in PROJECT["project"]["classifiers"] if each.startswith(name)]
    assert [each.rpartition(" ")[2] for each in named] == PYTHONS


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_has_a_version_that_it_accepts(python: str) -> None:
    pinned = versions(python)
    missing = [
        f"{each}: {version}"
        for each in requirements()
        if (version := pinned.get(canonicalize_name(each.name))) is None
        or not each.specifier.contains(version)
    ]
    assert missing == [], "run `make upgrade UPGRADE=`"


def test_every_group_is_in_the_constraints() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    (groups,) = re.findall(r"^GROUPS := (.+)$", makefile, re.MULTILINE)
    assert groups.split() == sorted(PROJECT["dependency-groups"])


def test_nothing_is_installed_without_the_constraints() -> None:
    text = (REPOSITORY / "Makefile").read_text()
    lines = [line for line in text.splitlines() if re.search(r"\bpip install\b", line)]
    assert [line.partition(" :=")[0] for line in lines] == ["CONSTRAINED"], lines
    (constrained,) = lines
    assert constrained.endswith("--constraint constraints.txt")
    assert "INSTALL := $(CONSTRAINED) --build-constraint constraints.txt\n" in text
    for script in (REPOSITORY / ".ci").iterdir():
        lines = script.read_text().replace("\\\n", " ").splitlines()
        installing = [line for line in lines if "pip install" in line]
        assert all('--constraint "$top/constraints.txt"' in line for line in installing), script


@pytest.mark.skipif(
    not (REPOSITORY / ".venv").exists() or not Path(sys.prefix).samefile(REPOSITORY / ".venv"),
    reason="only `make setup` installs by the constraints",
)
def test_what_is_installed_here_is_what_the_constraints_say() -> None:
    pinned = versions(".".join(map(str, sys.version_info[:2])))
    # Of this place only: a test may have imported setuptools, which brings others of its own.
    installed = distributions(path=[sysconfig.get_path("purelib")])
    found = {canonicalize_name(each.name): Version(each.version) for each in installed}
    assert found.keys() >= {"pip", "pika", "pyspark", "pytest"}
    # Somebody's own tools may be there, too.
    assert {name: found[name] for name in found.keys() & pinned.keys()} == {
        name: pinned[name] for name in found.keys() & pinned.keys()
    }
