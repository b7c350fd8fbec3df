"""Fused ops: registered forwards, and SGLang's Triton functions on other devices."""
