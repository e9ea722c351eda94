"""`python -m bench traffic`: the table of real traffic.

Each message has its own size, headers, ids and, if wanted, its own routing key. The other rows of
`bench` send messages that are all alike; a broker may handle those far faster.

A `Corpus` has tens of thousands of encoded messages. Publishers write it again and again, and give
each message new ids and a new digest in place (`frames`). Consumers verify every digest and count
lost, repeated and corrupt messages exactly. `row` has the declaration of a row; each file of
`bench.traffic.rows` declares one family of rows.
"""
