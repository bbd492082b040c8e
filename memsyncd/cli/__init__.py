"""The command line: a client of the daemon that prints for people."""
