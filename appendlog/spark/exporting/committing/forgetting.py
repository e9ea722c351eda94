"""Removes files that are damaged or gone from the list of an output.

The offsets of a lost file stay covered, so no export would write its rows again. A manifest takes
the file out of the list. Then the next export writes its offsets, as far as the log still has them.
Before that, the rest of the file moves to `_corrupt/`, where readers ignore it. A run that is
killed between the two steps leaves a file that is gone, which can be forgotten again.

Siblings go together, because an export writes all offsets of their range again.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import ListedFile, add_to, fence_after
from appendlog.spark.exporting.committing.manifests import Manifests, listed_files, siblings_of
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.files.quarantine import CORRUPT_FOLDER


def forget_files(
    manifests: Manifests, paths: Collection[str], now: datetime
) -> tuple[ListedFile, ...]:
    """Remove files from an output; return those that were in it.

    Args:
        manifests: Manifests of the queue, at least one.
        paths: Paths of files in the store; their siblings go, too. Files that no manifest lists
            are left alone.
        now: Present time, with a time zone.

    Raises:
        OutputChangedError: An export has committed during this.
        OutputError: An export is running, or a manifest is missing or cannot be read.
        OSError: The store fails.
    """
    where = f"{manifests.store.url}/{manifests.folder}"
    try:
        with manifests.store.locked(f"{manifests.work}/lock"):
            survey = manifests.survey()
            manifests.complete(survey)
            read = [manifests.read(number) for number in range(survey.manifests)]
            gone = tuple(
                file
                for siblings in siblings_of(listed_files(read))
                if any(file.path in paths for file in siblings)
                for file in siblings
            )
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
