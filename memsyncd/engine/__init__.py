"""The work of memsyncd, a subject a file: sync, search, browse, edit, history."""
