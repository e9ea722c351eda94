"""`python -m bench table`: the rows of `bench.rows` measured against each broker, and judged.

`plan` says what is run and how long it takes, `table_session` runs it, `outcome` is what came out,
`row_result` what it means; `text`, `document` and `picture` show it.
"""
