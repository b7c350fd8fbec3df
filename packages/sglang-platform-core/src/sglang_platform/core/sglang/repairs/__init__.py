"""Repairs of SGLang's own faults. Each is soft: where its target is gone, the platform serves without it."""
