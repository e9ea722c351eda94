"""Connects to S3 and compatible servers: Arrow reads and writes, boto3 creates manifests.

Arrow cannot make a write conditional. S3 can (`If-None-Match: *`), but a compatible server may not
know the header and overwrite the object without an error. So an export first tests that the server
refuses to create an object twice.
"""

import time
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.arrow_client import ArrowClient, Creator, NoCreator
from appendlog.spark.objects.faults import errors_as_one_line
from appendlog.spark.objects.store_options import StoreOptions

CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 60.0
TRIES: Final = 4
_CONFLICT_TRIES: Final = 5
_CONFLICT_WAIT_SECONDS: Final = 0.2
_NEEDS_BOTO3: Final = (
    "an export to S3 needs boto3 to create a manifest only if there is none: "
    "pip install 'amqp-server[s3]'"
)


def open_s3(bucket: str, options: StoreOptions) -> ArrowClient:
    """Return a client of S3.

    Args:
        bucket: Bucket to look up the region of, if neither region nor endpoint is given.
        options: access_key, secret_key, session_token, anonymous, role_arn, region, endpoint,
            connect_timeout and timeout (seconds), retries.

    Raises:
        StoreError: An option is no number, or the region cannot be found.
    """
    values = options.as_dict()
    place = f"s3://{bucket}"
    endpoint = urlsplit(_with_scheme(values["endpoint"])) if "endpoint" in values else None
    arguments: dict[str, Any] = {
        name: values[name]
        for name in ("access_key", "secret_key", "session_token", "role_arn", "region")
        if name in values
    }
    if endpoint is not None:
        arguments |= {"scheme": endpoint.scheme, "endpoint_override": endpoint.netloc}
    elif "region" not in arguments:
        with errors_as_one_line(f"{place}: its region", options):
            arguments["region"] = fs.resolve_s3_region(bucket)
    with errors_as_one_line(place, options):
        filesystem = fs.S3FileSystem(
            anonymous=values.get("anonymous", "false").lower() == "true",
            connect_timeout=_number(values, "connect_timeout", CONNECT_SECONDS),
            request_timeout=_number(values, "timeout", REQUEST_SECONDS),
            # A small object takes one request this way, not the three of an upload in parts.
            allow_delayed_open=True,
            retry_strategy=fs.AwsStandardS3RetryStrategy(_tries(values)),
            **arguments,
        )
    return ArrowClient(filesystem, "s3", options, _creator(options, filesystem))


def _creator(options: StoreOptions, filesystem: fs.FileSystem) -> Creator:
    try:
        import boto3
        import botocore.config
    except ImportError:
        return NoCreator(_NEEDS_BOTO3)
    values = options.as_dict()
    config = botocore.config.Config(
        connect_timeout=_number(values, "connect_timeout", CONNECT_SECONDS),
        read_timeout=_number(values, "timeout", REQUEST_SECONDS),
        retries={"total_max_attempts": _tries(values), "mode": "standard"},
    )
    with errors_as_one_line("s3", options):
        client = boto3.session.Session().client(
            "s3",
            endpoint_url=_with_scheme(values["endpoint"]) if "endpoint" in values else None,
            region_name=getattr(filesystem, "region", None) or values.get("region"),
            aws_access_key_id=values.get("access_key"),
            aws_secret_access_key=values.get("secret_key"),
            aws_session_token=values.get("session_token"),
            config=config,
        )
    return _S3Creator(client, filesystem)


class _S3Creator:
    """Creates objects only if they are absent."""

    def __init__(self, client: Any, filesystem: fs.FileSystem) -> None:  # noqa: ANN401
        self._client = client
        self._filesystem = filesystem

    def create(self, key: str, data: bytes) -> None:
        """Put an object on the condition that there is none of that key."""
        if not self._put_if_absent(key, data) and not self._is_ours(key, data):
            raise FileExistsError(f"s3://{key} is there already")

    def check(self, folder: str) -> None:
        """Create an object twice: the store must refuse the second time."""
        probe = f"{folder}/{ArrowClient.PROBE_NAME}"
        is_there = not self._put_if_absent(probe, b"")
        if not is_there and self._put_if_absent(probe, b""):
            raise StoreError(
                f"s3://{folder}: this server creates an object a second time although it must "
                "not (If-None-Match); two exports could overwrite each other's manifests"
            )

    def _put_if_absent(self, key: str, data: bytes) -> bool:
        """Put an object; return false if there is one already."""
        from botocore.exceptions import ClientError

        bucket, _, name = key.partition("/")
        for left in reversed(range(_CONFLICT_TRIES)):
            try:
                self._client.put_object(Bucket=bucket, Key=name, Body=data, IfNoneMatch="*")
            except ClientError as error:
                status = error.response["ResponseMetadata"].get("HTTPStatusCode")
                if status == 412:  # precondition failed
                    return False
                if status != 409 or not left:  # another writer is creating it
                    raise
                time.sleep(_CONFLICT_WAIT_SECONDS)
            else:
                return True
        raise AssertionError("the last try returns or raises")

    def _is_ours(self, key: str, data: bytes) -> bool:
        """Return whether this client created the object: boto3 tries again after a lost reply."""
        with self._filesystem.open_input_file(key) as file:
            return bool(file.size() == len(data) and file.read() == data)


def _with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def _tries(values: dict[str, str]) -> int:
    return max(1, int(_number(values, "retries", TRIES - 1)) + 1)


def _number(values: dict[str, str], name: str, default: float) -> float:
    text = values.get(name)
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:  # an hour
        raise StoreError(f"store option {name}={text}: write a number from 0 to 3600")
    return number
