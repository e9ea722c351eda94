"""Connects to object stores; each process has one client for each store."""

import difflib
import os
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from pyarrow import fs

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.arrow_client import ArrowClient, NoCreator
from appendlog.spark.objects.client import ObjectClient
from appendlog.spark.objects.faults import errors_as_one_line
from appendlog.spark.objects.fsspec_client import FsspecClient
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.s3 import open_s3
from appendlog.spark.objects.store_options import StoreOptions

_CLIENTS_MAX: Final = 16
_OURS: Final = ("s3", "s3a", "hdfs", "gs", "abfs", "az")
_LIBRARIES: Final = MappingProxyType({"gs": "gcsfs", "abfs": "adlfs", "az": "adlfs"})
"""Package of the library that fsspec needs for a scheme."""
_S3_OPTIONS: Final = frozenset(
    {"access_key", "secret_key", "session_token", "anonymous", "role_arn", "region", "endpoint"}
    | {"connect_timeout", "timeout", "retries"}
)
_HDFS_OPTIONS: Final = frozenset({"user", "kerb_ticket"})


def check_scheme(location: Location) -> None:
    """Check that a scheme is known; loads no library and sends no request.

    Raises:
        StoreError: The scheme is unknown; the message has the most similar one.
    """
    known = {*_OURS, *_fsspec_schemes()}
    if location.scheme not in known:
        near = difflib.get_close_matches(location.scheme, known, 1) or ["s3"]
        raise StoreError(f"{location}: no store is called {location.scheme}; nearest is {near[0]}")


def _fsspec_schemes() -> list[str]:
    try:
        import fsspec
    except ImportError:
        return []
    return list(fsspec.available_protocols())


def connect(location: Location, options: StoreOptions) -> ObjectClient:
    """Return a client of the store that a place is in.

    Sends no request yet, except for the region of an S3 bucket if none is given.

    Raises:
        StoreError: An option is unknown, a library is missing, the region cannot be found.
    """
    scheme = "s3" if location.scheme == "s3a" else location.scheme
    # A forked worker must not use the connections and threads of its parent.
    return _connect(scheme, location.bucket, options.with_environment(scheme), os.getpid())


@lru_cache(_CLIENTS_MAX)
def _connect(scheme: str, bucket: str, options: StoreOptions, _process: int) -> ObjectClient:
    if scheme == "s3":
        _refuse_unknown(scheme, options, _S3_OPTIONS)
        return open_s3(bucket, options)
    if scheme == "hdfs":
        _refuse_unknown(scheme, options, _HDFS_OPTIONS)
        return _open_hdfs(bucket, options)
    return _open_fsspec(scheme, options)


def _refuse_unknown(scheme: str, options: StoreOptions, known: frozenset[str]) -> None:
    for name in options.as_dict():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1) or sorted(known)
            raise StoreError(f"{scheme} has no store option {name!r}: nearest is {', '.join(near)}")


def _open_hdfs(authority: str, options: StoreOptions) -> ObjectClient:
    host, _, port = authority.partition(":")
    with errors_as_one_line(f"hdfs://{authority}", options):
        filesystem = fs.HadoopFileSystem(host, int(port or 8020), **options.as_dict())
    refuse = NoCreator("exports to hdfs:// are not there yet: mount it, or write to S3")
    return ArrowClient(filesystem, "hdfs", options, refuse)


def _open_fsspec(scheme: str, options: StoreOptions) -> ObjectClient:
    try:
        import fsspec
    except ImportError:
        library = _LIBRARIES.get(scheme, "fsspec")
        raise StoreError(f"{scheme}:// needs {library}: pip install {library}") from None
    try:
        with errors_as_one_line(f"{scheme}://", options):
            arguments: dict[str, Any] = options.as_dict()
            return FsspecClient(fsspec.filesystem(scheme, **arguments), scheme, options)
    except TypeError as error:
        raise StoreError(options.hide_in(f"{scheme}://: {error}")) from None
