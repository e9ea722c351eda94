"""The command `amqp-server demo`: shows the broker's main work with real data.

It publishes the flights that left New York in 2013, consumes them, kills the broker during that,
and has Spark count the messages in the queue's log at the end.

        command         options, exit codes
        quick           the quick demo: the steps, in order, and their output
        order_book      its data, and what became of each order
        order_clients   its publisher and its consumer
        walkthrough     the steps, in order, and their output
        flights         the data
        ledger          published and received messages
        client          common part of publisher and consumer: a connection by pika
        publishing      the publisher, with confirms
        consuming       the consumer, with acks
        broker_process  starts and kills the broker
        program         the command line of this program
        delays          the query, by Spark
        progress        a bar on a terminal, a few lines elsewhere
"""

from cli.demo.command import demo

__all__ = ["demo"]
