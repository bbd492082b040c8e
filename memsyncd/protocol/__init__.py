"""The socket's language as values: frames, messages, methods. No socket here."""
