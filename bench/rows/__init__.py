"""The rows of the benchmark table: each file declares one family of them.

A file has a tuple `EXPERIMENTS` of `bench.table.experiment.Experiment`; nothing else lists it. Most
experiments run a `Workload`; `fanout` is a short example. The others count their messages
themselves; `start_time` is the shortest of them.

The messages of a row are alike but for 16 octets, as the titles say. `bench.traffic` has rows whose
messages all differ.
"""
