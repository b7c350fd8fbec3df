"""Device memory that a worker holds: what it holds, and the memory saver."""
