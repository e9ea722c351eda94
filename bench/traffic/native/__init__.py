"""Clients of other projects at full speed: amqp091-go, Java, amqplib, librabbitmq, pika, aio-pika.

Each client is one small program beside this file, with the same arguments:

    PROGRAM publish|consume HOST PORT QUEUE SECONDS DIRECTORY

`publish` sends persistent messages with the headers of services, at most WINDOW without a confirm
(or one, where the client waits for each), and then a message `end`. `consume` verifies the CRC and
the number of each body, and acks each message, until it gets `end`. Both print `ready`, wait for a
line, and print one line of JSON. DIRECTORY has the sizes of the bodies and the octets of their
tails. A body is that of `bench.traffic._frames_py`, with the number as its serial.
"""

from typing import Final

WINDOW: Final = 200
"""Most publishes without a confirm, and the prefetch; every program has the same number."""
