"""memsyncd keeps markdown memories searchable: it watches, indexes and answers."""

__version__ = "0.2.0"
PROTOCOL = 1
"""The number of the socket's protocol. It grows when an old client could misread an answer."""
