"""What memsyncd does, a subject a file: sync, search, browse, edit, history."""
