"""Checks hooks against a release of the host, from sources alone."""
