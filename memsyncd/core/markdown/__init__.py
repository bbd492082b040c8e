"""From the bytes of a note to its sections, chunks, tags, links and problems."""
