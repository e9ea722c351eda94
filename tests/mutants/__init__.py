"""Put one-line bugs into the code, one at a time, and see that the nearest tests fail.

`make mutants` runs it; docs/testing.md says what it draws and what it has found. It works on copies
of the last commit without compiled kernels, so that bugs in kernels run too.
"""
