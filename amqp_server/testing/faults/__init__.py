"""Faults on demand for a broker in a test run: what goes wrong is said by the test.

    with broker.faults.block_publishers():
        ...

`Faults` is what users see. All hooks are here: a connection that filters what it sends, a file
system that can be full, a sensor that reports alarms. A server outside of tests has none of them.
"""
