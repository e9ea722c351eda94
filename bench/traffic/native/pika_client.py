"""pika's BlockingConnection: a publisher that waits for each confirm, or a consumer."""

import json
import sys
import time
from pathlib import Path

import pika

from bench.traffic.native import WINDOW
from bench.traffic.native.body import END, Verifier, headers, percentiles, read_bodies


def main() -> None:
    """Run one role; see the package."""
    role, host, port, queue, seconds, directory = sys.argv[1:]
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    channel = connection.channel()
    if role == "publish":
        result = publish(channel, queue, float(seconds), Path(directory))
    else:
        result = consume(channel, queue)
    print(json.dumps(result), flush=True)
    connection.close()


def wait_for_start() -> None:
    """Report that the client is ready, and wait for the start."""
    print("ready", flush=True)
    sys.stdin.readline()


def publish(
    channel: "pika.adapters.blocking_connection.BlockingChannel",
    queue: str,
    seconds: float,
    directory: Path,
) -> dict[str, float]:
    """Publish for some seconds; `basic_publish` waits for the confirm."""
    body = read_bodies(directory)
    channel.confirm_delivery()
    latencies_ns: list[int] = []
    wait_for_start()
    end_ns = time.monotonic_ns() + int(seconds * 1e9)
    while (start_ns := time.monotonic_ns()) < end_ns:
        number = len(latencies_ns)
        properties = pika.BasicProperties(
            content_type="application/octet-stream",
            headers=headers(number),
            delivery_mode=2,
            message_id=f"{number:032x}",
            timestamp=int(time.time()),
            correlation_id=f"{number:032x}" if number % 3 == 0 else None,
        )
        channel.basic_publish("", queue, body(number), properties)
        latencies_ns.append(time.monotonic_ns() - start_ns)
    channel.basic_publish("", queue, END)
    count = len(latencies_ns)
    return {"published": count, "confirmed": count, **dict(percentiles(latencies_ns))}


def consume(
    channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str
) -> dict[str, float]:
    """Consume until the last message."""
    verifier = Verifier()
    channel.basic_qos(prefetch_count=WINDOW)

    def take(
        _channel: object, method: "pika.spec.Basic.Deliver", _properties: object, body: bytes
    ) -> None:
        channel.basic_ack(method.delivery_tag)
        if body == END:
            channel.stop_consuming()
        else:
            verifier.take(body)

    channel.basic_consume(queue, take)
    wait_for_start()
    channel.start_consuming()
    return dict(verifier.to_json())


if __name__ == "__main__":
    main()
