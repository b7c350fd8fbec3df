"""Layers that keep a state per request, on a device without Triton."""
