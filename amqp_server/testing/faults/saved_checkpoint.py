"""A copy of the checkpoint files: what a server knew to be acknowledged at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from amqp_server.server import Server


class SavedCheckpoint:
    """A copy of the checkpoint files of one data directory; made by `write`.

    Args:
        directory: Where they are.
        files: Their content by name.
    """

    def __init__(self, directory: Path, files: dict[str, bytes]) -> None:
        self._directory = directory
        self._files = files

    @classmethod
    async def write(cls, server: Server) -> Self:
        """Write a checkpoint of all that is acknowledged now, and copy it."""
        await server.checkpointer.write_now()
        directory = _directory_of(server)
        # At once: no other round begins before the loop goes on.
        return cls(directory, {path.name: path.read_bytes() for path in directory.iterdir()})

    def check_belongs_to(self, server: Server) -> None:
        """Check that the files are those of a server.

        Raises:
            ValueError: They are not.
        """
        if _directory_of(server) != self._directory:
            raise ValueError(
                "the checkpoint is that of another broker: save one of this broker first"
            )

    def restore(self) -> None:
        """Replace the checkpoint files; no server may use them."""
        for path in self._directory.iterdir():
            path.unlink()
        for name, content in self._files.items():
            (self._directory / name).write_bytes(content)


def _directory_of(server: Server) -> Path:
    return server.config.storage_path / "offsets"
