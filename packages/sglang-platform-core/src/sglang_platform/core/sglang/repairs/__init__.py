"""Workarounds for faults of SGLang. All their hooks are soft: if a target is gone, the platform serves without it."""
