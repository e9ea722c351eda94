"""The command `amqp-server`: the broker and its tools.

`main` dispatches, `settings` combines options, environment and file, `parameters` parses durations
and sizes, `commands` lists the subcommands, whose modules are loaded only when one is called.
"""
