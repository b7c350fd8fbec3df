# ruff: noqa: E501
"""Why mutations of the packages survive: each changes nothing that can be noticed, or waits for a check."""

from __future__ import annotations

from judged import Judged

__all__ = ["explanation"]

_CORE = "packages/sglang-platform-core/src/sglang_platform/core"
_EXAMPLE = "packages/sglang-platform-example-oot/src/sglang_platform/example_oot"

REASONS: dict[str, str] = {
    f"{_EXAMPLE}/torch_device/process_group.py: return True -> return False": "the answer of wait() is not looked at: what failed raises",
    f"{_CORE}/graph/runner.py: return Drafts(self.tokens, topk=1) -> return Drafts(self.tokens, topk=2)": "what a static batch says of drafts is read in an engine alone, with speculative decoding",
    f"{_CORE}/graph/piecewise.py: self.compiler = sglang_backend -> pass": "the attribute is read in an engine alone, which names its compiler",
}


def explanation(judged: Judged) -> str | None:
    """The reason, or None where nobody has given one."""
    return REASONS.get(judged.name)
