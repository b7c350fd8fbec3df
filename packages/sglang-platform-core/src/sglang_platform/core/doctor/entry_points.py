"""Checks from source files, without importing, whether the object that an entry point names exists."""

from __future__ import annotations

import contextlib

from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.existence import forget, missing
from sglang_platform.core.installed.address import Address
from sglang_platform.core.installed.files import metadata_text
from sglang_platform.core.installed.modules import find

__all__ = ["reference", "target_problem", "triton_backends"]

_TRITON = "triton.backends"


def reference(value: str) -> tuple[str, str]:
    """The module and the attribute of ``pkg.mod:attribute [extra]``; the attribute is empty where there is none."""
    module, _, attribute = value.partition("[")[0].replace(" ", "").partition(":")
    return module, attribute


def target_problem(value: str) -> str | None:
    """What is wrong with `pkg.mod:attribute`, or None where it is right or cannot be told without importing."""
    module, attribute = reference(value)
    if not module or (":" in value and not attribute):
        return f"{value!r} is no object reference (`pkg.mod:function`)"
    if not attribute:
        return f"{value!r} names a module, not a function in one"
    spec, absent = find(module)
    if spec is None:
        return f"the module {absent!r} does not exist in this environment"
    lacked = missing(Address(module, tuple(attribute.split("."))))
    forget()  # the file may change before the next check
    if lacked is None:
        return None
    meant = next((one.partition(":")[2] for one in lacked.nearest if one.startswith(f"{module}:")), None)
    return f"the module {module!r} does not define {attribute!r}" + (
        f"; did you mean {meant!r}?" if meant else ""
    )


def triton_backends() -> list[EntryPointRecord]:
    """The installed backends of Triton, which takes either of two with one name, without a word."""
    import importlib_metadata

    found = {}
    for distribution in importlib_metadata.distributions():
        # Metadata that cannot be read is told by another check. A pipe would never end.
        with contextlib.suppress(Exception):
            if f"[{_TRITON}]" not in metadata_text(distribution, "entry_points.txt"):
                continue
            for point in distribution.entry_points.select(group=_TRITON):
                origin = PluginOrigin(point.name, distribution.name, distribution.version)
                found[origin] = EntryPointRecord(_TRITON, point.name, point.value, origin)
    return list(found.values())
