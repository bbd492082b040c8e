"""Where programs that were made without memsyncd in mind meet it. A module needs what its name says, and loads it alone."""
