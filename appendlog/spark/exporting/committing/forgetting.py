"""Take files that are damaged or gone out of what an output says that it has.

A file that was lost is covered all the same, so no export would ever write its rows again. A
manifest of its own takes it out: its offsets are as if they had not been exported, and the next
export writes them, as far as the log still has them. What is left of the file goes to `_corrupt/`
first, out of the way of readers: a run that is killed in between leaves a file that is gone, which
is what was to be forgotten anyway.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import ListedFile, add_to, fence_after
from appendlog.spark.exporting.committing.manifests import Manifests, listed_files
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.files.quarantine import CORRUPT_FOLDER


def forget_files(
    manifests: Manifests, paths: Collection[str], now: datetime
) -> tuple[ListedFile, ...]:
    """Take files out of an output; return those that were in it.

    Args:
        manifests: Of the queue, at least one.
        paths: Of files in the store; what no manifest names is left alone.
        now: With a time zone.

    Raises:
        OutputChangedError: An export has committed meanwhile.
        OutputError: An export is running, or a manifest is missing or cannot be read.
        OSError: The store fails.
    """
    where = f"{manifests.store.url}/{manifests.folder}"
    try:
        with manifests.store.locked(f"{manifests.work}/lock"):
            survey = manifests.survey()
            manifests.complete(survey)
            read = [manifests.read(number) for number in range(survey.manifests)]
            gone = tuple(file for file in listed_files(read) if file.path in paths)
            if not gone:
                return ()
            for file in gone:
                with suppress(FileNotFoundError):
                    manifests.store.move(file.path, f"{CORRUPT_FOLDER}/{file.path}")
            manifest = replace(fence_after(read[-1], now), kind="forgotten", forgotten=gone)
            manifest = replace(manifest, total=add_to(read[-1].total, manifest))
            if not manifests.create(manifest):
                raise OutputChangedError(f"{where}: another export has written here; run it again")
            return gone
    except BlockingIOError as error:
        raise OutputError(f"{where}: another export is writing here; wait for it") from error
