"""`amqp-server migrate`: moves what a RabbitMQ has to the running server."""
