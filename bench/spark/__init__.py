"""What the Spark reader costs.

`python -m bench.spark decode` is the decoder alone, without Spark, in both builds.
"""
