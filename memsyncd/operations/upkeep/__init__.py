"""Archive, restore, clean up and promote memories."""
