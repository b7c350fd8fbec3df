"""Basalt: the vendor's library is mocked where it is not installed, SGLang is patched where it has no opening."""

from . import _mock_library

_mock_library.install()


def basalt_platform_plugin():
    from torch_basalt import device_count

    if device_count() == 0:
        return None
    return f"{__name__}.platform:BasaltPlatform"


def load():
    from .patches import apply_basalt_patches

    apply_basalt_patches()
