"""Turns errors of stores into one line that a user can act on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.store_options import StoreOptions

_DETAIL_MAX: Final = 300
# "When ...: AWS Error ACCESS_DENIED during HeadObject operation: No response body."
_AWS_ERROR: Final = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<operation>\w+) "
    r"operation:? ?(?P<detail>.*)",
    re.DOTALL,
)
_REQUEST_ID: Final = re.compile(r" ?\(Request ID: [^)]*\)")
_WORDS: Final = {
    "ACCESS_DENIED": "access denied",
    "AccessDenied": "access denied",
    "403": "access denied",
    "INVALID_ACCESS_KEY_ID": "these credentials are not known there",
    "InvalidAccessKeyId": "these credentials are not known there",
    "NETWORK_CONNECTION": "cannot be reached",
    "NO_SUCH_BUCKET": "no such bucket",
    "NoSuchBucket": "no such bucket",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "301": "the bucket is in another region: give region",
}


@contextmanager
def errors_as_one_line(place: str, options: StoreOptions) -> Iterator[None]:
    """Turn errors of a store's library into a StoreError; leaves FileNotFoundError and the like.

    Args:
        place: URL that the request was for.
        options: Options of the store; their secrets do not appear in the message.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, StoreError):
        raise
    # The libraries behind fsspec have errors of their own, without a common base.
    except Exception as error:
        if isinstance(error, TypeError | AssertionError):
            raise
        raise StoreError(options.hide_in(f"{place}: {describe(error)}")) from None


def describe(error: Exception) -> str:
    """Return what went wrong, in few words; the caller hides secrets."""
    response = getattr(error, "response", None)  # of botocore
    if isinstance(response, dict):
        fault = response.get("Error", {})
        return _join(str(fault.get("Code", "")), str(fault.get("Message", "")))
    text = _REQUEST_ID.sub("", str(error))
    found = _AWS_ERROR.search(text)
    if found is not None:
        code = found["code"] if found["code"] in _WORDS else found["status"] or found["code"]
        return _join(code, f"{found['operation']}: {found['detail']}")
    if isinstance(error, OSError | pa.ArrowException):
        return text[:_DETAIL_MAX]
    return f"{type(error).__name__}: {text}"[:_DETAIL_MAX]


def _join(code: str, detail: str) -> str:
    return f"{_WORDS.get(code, code)} ({detail.strip().rstrip('.')})"[:_DETAIL_MAX]
