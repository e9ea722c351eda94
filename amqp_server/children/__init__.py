"""The processes that the server starts and watches: the management server and the shovels."""
