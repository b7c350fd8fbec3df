"""Dolomite serves many releases with one wheel. Names are imported when they are asked for."""

_LAZY = {"DolomitePlatform": ".platform", "DolomitePool": ".pool"}


def __getattr__(name):
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name], __name__), name)
    raise AttributeError(name)
