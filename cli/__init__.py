"""The command `amqp-server`: starts the broker, and the tools beside it.

`main` dispatches, `settings` brings flags, environment and file together, `parameters` reads
durations and sizes, `commands` lists what is loaded only when it is called.
"""
