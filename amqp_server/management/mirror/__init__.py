"""What the broker holds and does, as the management server sees it: rows with rates and samples."""

from amqp_server.management.mirror.mirror import Mirror
from amqp_server.management.mirror.row import Row, Samples

__all__ = ["Mirror", "Row", "Samples"]
