"""Read the bytes of a note: sections, chunks, tags, links and problems."""
