"""The test classes of RabbitMQ's Java client, unchanged, with this server."""
