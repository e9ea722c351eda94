"""`python -m bench table`: measures the rows of `bench.rows` against each broker and judges them.

`experiment` has the declaration of a row, and `rows` finds all rows. `plan` decides what to run,
`table_session` runs it, `outcome` and `row_result` hold the figures; `text`, `report` and `picture`
show them.
"""
