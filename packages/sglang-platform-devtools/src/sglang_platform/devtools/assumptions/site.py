"""One place in the host's source that assumes CUDA, or that tests for it."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["KINDS", "STANDINGS", "Assumption", "Kind", "Standing"]

Kind = Literal["torch.cuda", "triton", "gate", "import"]

KINDS: dict[Kind, str] = {
    "torch.cuda": '`torch.cuda.*`, `.cuda()`, and devices written as `"cuda"`',
    "triton": "launches of Triton kernels, `kernel[grid](...)`",
    "gate": 'questions for CUDA: `is_cuda()`, `.is_cuda`, `device.type == "cuda"`, lists of device types',
    "import": "imports of packages and modules that are for CUDA only",
}

Standing = Literal["open", "gated"]

STANDINGS: dict[Standing, str] = {
    "open": "nothing around it or before it in its block keeps another device away",
    "gated": "only run where the source has asked for a device by name, or an import may fail",
}


class Assumption(NamedTuple):
    """One place. `function` is the qualified name of the enclosing function, empty for module-level code."""

    kind: Kind
    form: str
    """The subkind: ``call``, ``literal``, ``launch``, ``test``, ``flag``, ``list``, ``module``, ..."""
    module: str
    function: str
    path: str
    line: int
    text: str
    feature: str
    asked: str = ""
    """The condition or guard around the place that keeps another device away; empty if there is none."""
    standing: Standing = "open"
    by: str = ""
    """How the gate was found: ``here``, or ``a module for npu``."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"
