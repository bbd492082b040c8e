"""Count sections, and how often they were recalled."""
