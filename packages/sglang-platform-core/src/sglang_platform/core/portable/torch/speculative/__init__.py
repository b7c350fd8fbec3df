"""Speculative decoding in plain torch: the draft tree, its verification, and the slots of draft tokens.

For devices without the kernels that a host has for its own. Nothing here waits for the device.
"""
