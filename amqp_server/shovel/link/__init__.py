"""A client of AMQP 0-9-1 for moving messages in bulk: connections, channels, and the pump."""
