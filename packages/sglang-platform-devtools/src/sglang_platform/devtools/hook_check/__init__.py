"""What a release of the host means for the hooks on it, read from sources alone."""
