"""The daemon's process: it makes the objects of the other rooms, runs them and stops them."""
