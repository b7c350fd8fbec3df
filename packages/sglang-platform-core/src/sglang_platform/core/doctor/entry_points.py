"""Checks from source files, without importing, whether the object that an entry point names exists."""

from __future__ import annotations

from sglang_platform.core.hooks.existence import forget, missing
from sglang_platform.core.installed.address import Address
from sglang_platform.core.installed.modules import find

__all__ = ["reference", "target_problem"]


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
