"""Families of models end to end: which tokens the platform gives, and whose parts gave them.

record  the families and the points at which each is served     run   one engine: tokens, parts, calls of ops
page    the reports as `docs/families.md`
"""
