"""`amqp-server migrate` from our own broker, and from a RabbitMQ."""
