"""What `torch.compile` finds of the device: no code generator for Inductor, which is said in words.

A vendor with a generator names its classes here; the other backends of `torch.compile` need nothing.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.example_oot.device_type import NAME

__all__ = ["CppWrapperCodegen", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen"]


class _Refused(type):
    def __getattr__(cls, name: str) -> Any:
        raise NotImplementedError(
            f"torch.compile's backend 'inductor' generates no code for {NAME}: use backend='aot_eager' or 'eager'"
        )


class Scheduling(metaclass=_Refused):
    """Refuses the first question that Inductor asks."""


PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = Scheduling
