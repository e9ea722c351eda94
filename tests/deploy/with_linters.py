"""Other people's rules for the files of deploy/: `make check-tools` runs this."""

import subprocess
from typing import Final

from tests.servers import REPOSITORY

_PROGRAMS: Final = REPOSITORY / "build" / "deploy" / "bin"


def _complaints(program: str, *words: str) -> str:
    done = subprocess.run(
        [str(_PROGRAMS / program), *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_hadolint_has_nothing_to_say_about_the_dockerfile() -> None:
    assert _complaints("hadolint", "deploy/Dockerfile") == ""


def test_the_manifest_has_the_schema_of_kubernetes() -> None:
    assert _complaints("kubernetes-validate", "--strict", "deploy/kubernetes.yaml") == ""


def test_both_programs_find_mistakes() -> None:
    wrong = REPOSITORY / "deploy" / "compose.yaml"
    assert _complaints("kubernetes-validate", "--strict", str(wrong))
    assert _complaints("hadolint", str(wrong))
