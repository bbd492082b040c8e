"""The command line: a client with words for people. It speaks the socket like everybody else."""
