"""The rows of the traffic table: each file declares one family of them.

A file has a tuple `ROWS` of `bench.traffic.row.TrafficRow`; nothing else lists it.
"""
