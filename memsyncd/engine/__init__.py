"""What memsyncd does, an act a file: sync, recall, browse, status."""
