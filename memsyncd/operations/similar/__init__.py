"""Sections that say nearly the same, in one workspace or in several."""
