"""The version is the same wherever it is written."""

import re
import tomllib

from amqp_server import __version__
from tests.docs.code_blocks import REPOSITORY
from tests.docs.test_readme import README


def test_the_project_the_changelog_and_the_readme_have_the_version_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__

    released = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\]", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert released[0] == __version__

    minor = __version__.rpartition(".")[0]
    assert re.findall(r"^This is version (\S+):", README.read_text(), re.MULTILINE) == [minor]


def test_the_page_of_upgrades_ends_at_this_version() -> None:
    page = (REPOSITORY / "docs" / "upgrading.md").read_text()
    steps = re.findall(r"^## From (\S+) to (\S+)$", page, re.MULTILINE)

    assert steps
    assert steps[0][1] == __version__.rpartition(".")[0]
