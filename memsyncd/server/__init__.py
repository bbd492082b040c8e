"""From a connection to an act and back: the Unix socket and the handlers of its methods."""
