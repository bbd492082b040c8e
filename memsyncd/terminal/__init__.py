"""Everything that any command prints with: words, the console, formats, colours."""
