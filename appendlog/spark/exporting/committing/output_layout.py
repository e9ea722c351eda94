"""Kind and folders of the files of an output: its queues share them, or Spark cannot read it whole.

    _amqplog/~layout.json    {"extension":"parquet","time_columns":["date"]}
                             {"extension":"jsonl","time_columns":["region"],
                              "sources":{"region":"header:region"}}

`time_columns` has the columns of fields too: an earlier amqp-server knows it by that name.

The first export that adds files to an output creates it, in an output of an earlier version the
first that adds a queue. Of two that begin at once with different layouts, one is refused. No
folder of a queue has that name: `metadata.names` begins none with `~`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import OutputDamagedError, decode_manifest
from appendlog.spark.exporting.layout import WORK_DIRECTORY
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS, Partitioning
from appendlog.spark.exporting.stores.store import OutputStore

LAYOUT_NAME: Final = f"{WORK_DIRECTORY}/~layout.json"
_MANIFEST: Final = re.compile(rf"{WORK_DIRECTORY}/([^/]+)/manifest/\d{{20}}\.json\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """Kind and folders of files.

    Attributes:
        extension: What their names end with, without the dot: `parquet`, `jsonl.gz`, ...
        columns: Columns of the folders: none, `date`, or `date`, `hour`; then those of fields.
        sources: Place in messages of the columns of fields; empty if it is unknown.
    """

    extension: str
    columns: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

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
        if there.columns != self.columns:
            has = "/".join(there.columns)
            raise OutputError(
                f"{where}: has {f'folders {has}' if has else 'no such folders'}: Spark does not "
                f"read folders of two kinds; export {there._option}, or give another --out"
            )
        if there.sources and there.sources != self.sources:
            raise OutputError(
                f"{where}: its columns are of other fields of messages: export {there._option}, or "
                "give another --out"
            )

    @property
    def _option(self) -> str:
        """Return how an export makes this layout."""
        columns = list(self.columns)
        words = []
        if columns[:1] == ["date"]:
            words.append("hour" if columns[1:2] == ["hour"] else "day")
            columns = [name for name in columns if name not in ("date", "hour")]
        words += [f"{name}={self.sources.get(name, 'header:...')}" for name in columns]
        return f"with --partition-by {','.join(words)}" if words else "without --partition-by"


class OutputLayout:
    """The layout that an export gives to an output; one for all queues of the export.

    Args:
        store: Store of the output.
        extension: See `Layout`.
        partitioning: How the export divides its files.

    Attributes:
        layout: The layout.
    """

    def __init__(
        self, store: OutputStore, extension: str, partitioning: Partitioning = NO_PARTITIONS
    ) -> None:
        self.layout: Final = Layout(extension, partitioning.columns, partitioning.sources)
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
                self.layout.refuse_other(self._with_sources(there, claimed), self._store.url)
            # The export that claimed it did not come to its commit.
            self._stale = claimed
        self._is_free = True

    def refuse_other(self, there: Layout, where: str) -> None:
        """See `Layout.refuse_other`; what is there has the fields that were noted for the output.

        Raises:
            OutputError: Files of this layout cannot stand beside those that are there.
        """
        self.layout.refuse_other(self._with_sources(there, self._noted()), where)

    def claim(self) -> None:
        """Make the layout that of the output, before the first files of a queue are committed.

        Raises:
            OutputError: Another export was quicker, with another layout.
        """
        if self._is_claimed:
            return
        document: dict[str, object] = {
            "extension": self.layout.extension,
            "time_columns": self.layout.columns,
        }
        if self.layout.sources:
            document["sources"] = self.layout.sources
        data = json.dumps(document, separators=(",", ":")).encode()
        try:
            self._store.create(LAYOUT_NAME, data)
        except FileExistsError:
            claimed = self._noted()
            if claimed not in (None, self.layout):
                there = self._of_files()
                if there is not None:
                    self.layout.refuse_other(self._with_sources(there, claimed), self._store.url)
                elif claimed != self._stale:
                    self.layout.refuse_other(claimed, self._store.url)
                with self._store.open_new(LAYOUT_NAME) as file:
                    file.write(data)
        self._is_claimed = True

    def _with_sources(self, there: Layout, noted: Layout | None) -> Layout:
        """Add the sources that were noted, if they are of these columns."""
        if noted is None or noted.columns != there.columns:
            return there
        return replace(there, sources=noted.sources)

    def _noted(self) -> Layout | None:
        """Return the layout that an export has claimed; None if there was none."""
        try:
            data = self._store.read(LAYOUT_NAME)
        except FileNotFoundError:
            return None
        try:
            document = json.loads(data)
            sources = dict(document.get("sources", {}))
            return Layout(document["extension"], tuple(document["time_columns"]), sources)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
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
