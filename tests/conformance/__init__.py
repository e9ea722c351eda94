"""What unmodified RabbitMQ clients rely on, feature by feature, seen on the wire.

The same tests run against our server and, with `AMQP_URL`, against any other broker: each
expectation was first seen to hold for RabbitMQ, or says with `differs` why ours is another.
"""
