"""The parts that all commands share: parsed words, the console, formats, colours."""
