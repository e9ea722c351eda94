"""What the storage rooms cost by themselves: no sockets, no server, each beside a plain way.

A sub-benchmark is a file of its own here that has a click command named `benchmark`; nothing
else lists it. Each prints what it measured, what that is compared with in the same run, and
the ratio of the two.
"""
