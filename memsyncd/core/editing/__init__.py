"""What would a note's bytes be after an edit? Values in, values out; who writes them is left to `workspace` and `engine`."""
