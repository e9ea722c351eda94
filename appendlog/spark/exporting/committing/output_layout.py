"""Kind and folders of the files of an output: its queues share them, or Spark cannot read it whole.

    _amqplog/~layout.json    {"extension":"parquet","time_columns":["date"]}

The first export that adds files to an output creates it, in an output of an earlier version the
first that adds a queue. Of two that begin at once with different layouts, one is refused. No
folder of a queue has that name: `metadata.names` begins none with `~`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import OutputDamagedError, decode_manifest
from appendlog.spark.exporting.layout import WORK_DIRECTORY
from appendlog.spark.exporting.stores.store import OutputStore

LAYOUT_NAME: Final = f"{WORK_DIRECTORY}/~layout.json"
_MANIFEST: Final = re.compile(rf"{WORK_DIRECTORY}/([^/]+)/manifest/\d{{20}}\.json\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """Kind and folders of files.

    Attributes:
        extension: What their names end with, without the dot: `parquet`, `jsonl.gz`, ...
        time_columns: Columns of the folders by time: none, `date`, or `date`, `hour`.
    """

    extension: str
    time_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the layout of a file of an output, by its path: `queue=<queue>/.../<name>`."""
        _, *folders, name = path.split("/")
        columns = tuple(folder.partition("=")[0] for folder in folders)
        return cls(name.partition(".")[2], columns)

    def refuse_other(self, there: Self, where: str) -> None:
        """Check that files of this layout can stand beside those that are there.

        Args:
            there: Layout of what is there.
            where: Place of what is there, for the message.

        Raises:
            OutputError: They cannot.
        """
        if there.extension != self.extension:
            raise OutputError(
                f"{where}: has files of kind {there.extension}, not {self.extension}: readers of "
                "one do not read the other; give another --out"
            )
        if there.time_columns != self.time_columns:
            has = "/".join(there.time_columns)
            raise OutputError(
                f"{where}: has {f'folders {has}' if has else 'no folders by time'}: Spark does not "
                f"read folders of two kinds; export {_option(there.time_columns)}, or give another "
                "--out"
            )


class OutputLayout:
    """The layout that an export gives to an output; one for all queues of the export.

    Args:
        store: Store of the output.
        extension: See `Layout`.
        time_columns: See `Layout`.

    Attributes:
        layout: The layout.
    """

    def __init__(
        self, store: OutputStore, extension: str, time_columns: Sequence[str] = ()
    ) -> None:
        self.layout: Final = Layout(extension, tuple(time_columns))
        self._store = store
        self._is_free = False
        self._is_claimed = False
        self._stale: Layout | None = None

    def check(self) -> None:
        """Check that files of a queue that has none yet can stand beside those of other queues.

        Raises:
            OutputError: They cannot.
        """
        if self._is_free or self._is_claimed:
            return
        claimed = self._noted()
        if claimed != self.layout:
            there = self._of_files()
            if there is not None:
                self.layout.refuse_other(there, self._store.url)
            # The export that claimed it did not come to its commit.
            self._stale = claimed
        self._is_free = True

    def claim(self) -> None:
        """Make the layout that of the output, before the first files of a queue are committed.

        Raises:
            OutputError: Another export was quicker, with another layout.
        """
        if self._is_claimed:
            return
        document = {"extension": self.layout.extension, "time_columns": self.layout.time_columns}
        data = json.dumps(document, separators=(",", ":")).encode()
        try:
            self._store.create(LAYOUT_NAME, data)
        except FileExistsError:
            claimed = self._noted()
            if claimed not in (None, self.layout):
                there = self._of_files()
                if there is not None or claimed != self._stale:
                    self.layout.refuse_other(there or claimed, self._store.url)
                with self._store.open_new(LAYOUT_NAME) as file:
                    file.write(data)
        self._is_claimed = True

    def _noted(self) -> Layout | None:
        """Return the layout that an export has claimed; None if there was none."""
        try:
            data = self._store.read(LAYOUT_NAME)
        except FileNotFoundError:
            return None
        try:
            document = json.loads(data)
            return Layout(document["extension"], tuple(document["time_columns"]))
        except (ValueError, TypeError, KeyError) as error:
            raise OutputDamagedError(
                f"{self._store.url}/{LAYOUT_NAME}: damaged: remove it, and the next export makes "
                "it again"
            ) from error

    def _of_files(self) -> Layout | None:
        """Return the layout of files that are there, by the manifests; None if there are none."""
        paths = [file.path for file in self._store.list(WORK_DIRECTORY)]
        for path in reversed([path for path in paths if _MANIFEST.match(path)]):
            for file in decode_manifest(self._store.read(path), f"{self._store.url}/{path}").files:
                return Layout.of(file.path)
        return None


def _option(columns: Sequence[str]) -> str:
    lengths = {(): "without --partition-by", ("date",): "with --partition-by day"}
    return lengths.get(tuple(columns), "with --partition-by hour")
