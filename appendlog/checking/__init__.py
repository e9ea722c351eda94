"""Reading a log to the last byte without changing it: is everything as it was written?"""
