"""Import memories of other systems, and export memories."""
