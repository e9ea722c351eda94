"""What the other tests take for RabbitMQ's behaviour is seen to be RabbitMQ's."""
