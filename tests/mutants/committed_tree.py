"""The last commit: what bugs are drawn from, whatever lies about in the working tree."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class CommittedTree:
    """A commit, and which content each of its files has.

    Attributes:
        repository: Root of the working tree.
        commit: Its name, shortened.
        contents: Git's name of the content of each file, by path.
    """

    repository: Path
    commit: str
    contents: dict[str, str]

    @classmethod
    def of_head(cls, repository: Path) -> Self:
        """Return the commit that is checked out."""
        commit = _git(repository, "rev-parse", "--short=12", "HEAD").strip()
        contents: dict[str, str] = {}
        for entry in _git(repository, "ls-tree", "-r", "-z", commit).split("\0")[:-1]:
            about, _, path = entry.partition("\t")
            contents[path] = about.split()[2]
        return cls(repository, commit, contents)

    @property
    def packages(self) -> list[str]:
        """Folders of the root that hold code or tests, sorted."""
        return sorted(
            {
                path.partition("/")[0]
                for path in self.contents
                if path.endswith(".py") and "/" in path
            }
        )

    @property
    def differs(self) -> bool:
        """Whether tracked files in the working tree were changed since."""
        return bool(_git(self.repository, "status", "--porcelain", "--untracked-files=no"))

    def copy_to(self, directory: Path) -> None:
        """Write its files below a directory, which is made."""
        directory.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", self.commit],
            cwd=self.repository,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(directory)], input=archive, check=True)


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=repository, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
