"""An AMQP 0-9-1 broker whose queues are logs on disk.

`amqp_server.server` is the asyncio shell, `amqp_server.broker` decides, `amqp_server.protocol`
reads and writes the wire without doing I/O. Nothing is imported here, so that a part can be used
without the rest.
"""

__version__ = "0.1.0"
