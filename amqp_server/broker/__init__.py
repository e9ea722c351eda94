"""The broker: exchanges, queues, consumers and confirms, without sockets or frames."""
