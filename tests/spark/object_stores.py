"""Object stores on this machine: S3 on loopback, and memory."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import boto3

from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import StoreOptions

ACCESS_KEY: Final = "AKIDFORTESTS"
SECRET_KEY: Final = "s3cr3t-of-the-tests"
_NUMBERS = itertools.count()


class LoopbackS3:
    """An S3 server of this process."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.values = {
            "endpoint": endpoint,
            "region": "eu-central-1",
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
            "timeout": "20",
        }
        self.options = StoreOptions.of(self.values)

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
        """Return a client that is none of ours."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="eu-central-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def new_bucket(self) -> str:
        """Make a bucket; return its name."""
        name = f"lake-{next(_NUMBERS)}"
        place = {"LocationConstraint": "eu-central-1"}
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration=place)
        return name

    def deny(self, bucket: str) -> None:
        """Deny everybody to write into a bucket, and to read from it."""
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": ["s3:PutObject", "s3:GetObject"],
            "Resource": f"arn:aws:s3:::{bucket}/*",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client().put_bucket_policy(Bucket=bucket, Policy=policy)


SERVER: Final = """
import sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
application = DomainDispatcherApplication(create_backend_app)
one_at_a_time = threading.Lock()
def answer(request, start_response):
    # S3 creates an object for one of those who ask at the same time; moto looks, then writes.
    if "HTTP_IF_NONE_MATCH" not in request:
        return application(request, start_response)
    with one_at_a_time:
        return application(request, start_response)
server = make_server("127.0.0.1", 0, answer, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.port, flush=True)
sys.stdin.read()
"""


@contextmanager
def loopback_s3() -> Iterator[LoopbackS3]:
    """Run an S3 server on a free port of 127.0.0.1.

    A process of its own: libraries that wait for it without letting go of this interpreter
    would wait for ever otherwise.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield LoopbackS3(f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.communicate()


def new_memory() -> str:
    """Return a URL in the memory of this process that nothing is under yet."""
    return f"memory://lake-{next(_NUMBERS)}"


def upload(directory: Path, url: str, options: StoreOptions) -> None:
    """Copy a directory into a store."""
    location = Location.parse(url)
    client = connect(location, options)
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                client.put(f"{location.key}/{path.relative_to(directory).as_posix()}", file)
