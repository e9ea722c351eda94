"""The command `amqp-server demo`: the broker's main job, on real data, in front of your eyes.

It publishes the flights that left New York in 2013, consumes them, kills the broker in the
middle of that, and lets Spark count what the queue's log holds in the end.

    command         options, exit codes
    walkthrough           the steps, in order, and what each prints
    flights         the data
    ledger          what was published, and what came back
    client          what publisher and consumer share: a connection by pika
    publishing      the publisher, with confirms
    consuming       the consumer, with acks
    broker_process  the broker, started and killed
    program         how this program starts itself again
    delays          the query, by Spark
    progress        a bar on a terminal, a few lines elsewhere
"""

from cli.demo.command import demo

__all__ = ["demo"]
