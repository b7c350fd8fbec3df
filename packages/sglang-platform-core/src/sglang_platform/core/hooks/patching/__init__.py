"""Applying hooks and undoing them."""
