"""For any device that torch reaches: the device operations, graphs, copies to the host, the platform base."""
