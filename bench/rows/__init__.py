"""The rows of the benchmark table, and the experiments that fill them.

`row` says what a row promises, `experiment` what an experiment is given and gives back, `table`
which rows and experiments there are. Each other file is one kind of experiment.
"""
