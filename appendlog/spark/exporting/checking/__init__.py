"""What is in an output, and whether it is complete: nothing here changes one."""
