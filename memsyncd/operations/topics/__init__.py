"""Topics, which are notes, and their fields, which are sections."""
