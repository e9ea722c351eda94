"""Cost of the storage packages alone, without sockets, each beside a plain way of doing the same.

A sub-benchmark is a file of this package with a click command named `benchmark`; no list names the
file. Most print a speed, the speed of the plain way in the same run, and the ratio of the two.
"""
