"""Putting hooks in place and taking them back: when, where, and what stood there."""
