"""The Unix socket, its connections, and the handlers of its methods."""
