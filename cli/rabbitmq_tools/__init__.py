"""RabbitMQ's tools, such as `rabbitmqctl`, over the control socket of this server.

Scripts start them every few seconds, as probes. So a tool imports the standard library only, and
of it little; the file of a family of verbs is imported when one of them is called. Annotations are
text at run time: nothing here imports `typing`.
"""
