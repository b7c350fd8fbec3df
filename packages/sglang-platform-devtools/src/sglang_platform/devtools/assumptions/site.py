"""One place in the host's source that assumes CUDA, or that tests for it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

__all__ = ["ANY_LAUNCH", "KINDS", "STANDINGS", "Assumption", "Kind", "Standing", "describe"]

Kind = Literal["torch.cuda", "triton", "gate", "import"]

KINDS: dict[Kind, str] = {
    "torch.cuda": '`torch.cuda.*`, `.cuda()`, and devices written as `"cuda"`',
    "triton": "launches of Triton kernels, `kernel[grid](...)`",
    "gate": 'questions for CUDA: `is_cuda()`, `.is_cuda`, `device.type == "cuda"`, lists of device types',
    "import": "imports of packages and modules that are for CUDA only",
}

Standing = Literal["open", "gated", "carried", "hooked", "refused"]

STANDINGS: dict[Standing, str] = {
    "open": "nothing in the source keeps another device away from it",
    "gated": "only run where the source has asked for a device by name, or an import may fail",
    "carried": "a seam replaces the function that it is in, or all that lead to it",
    "hooked": "a seam runs before, after or around the function that it is in",
    "refused": "only reached with an argument that a seam refuses before the launch",
}

ANY_LAUNCH = "any launch"
"""The entry in `arguments` for a place that is reached without any server argument."""


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
    """The seam, or how the gate was found."""
    arguments: tuple[str, ...] = ()
    """The server arguments that lead to it, as ``attention_backend=fa3`` if the source names the value; empty if
    unknown."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def describe(site: Assumption) -> dict[str, Any]:
    """The place in plain JSON types; its keys are the names of the attributes."""
    return {**site._asdict(), "arguments": list(site.arguments)}
