"""Level 10: SGLang's own kits that need no model: attention, each method in each runner mode, and the radix cache."""

from __future__ import annotations

from functools import partial
from typing import Any

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.kits.attention import compared
from sglang_platform.conformance.kits.attention_run import RADIX
from sglang_platform.conformance.kits.verdict import Judged
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, engine
from sglang_platform.conformance.subject import Subject

_SPECULATIVE = ("target verify", "draft extend", "draft runners")


_check = partial(
    check,
    level=Level.KITS,
    requires=[engine(), attention_backend()],
    hosts=("sglang",),
    seconds=1200,
    fix="run `python -m sglang_platform.conformance.kits.attention PLATFORM`: it names each test and its first error",
)


def _compared(subject: Subject) -> tuple[Judged, ...]:
    try:
        backend = subject.platform.get_default_attention_backend()
    except NotImplementedError as error:
        raise NotApplicable(f"the platform leaves the attention to SGLang: {error}") from None
    return compared(subject.name, subject.parts.device_argument, backend)


def _told(found: list[Judged]) -> list[dict[str, Any]]:
    """Raises CheckFailed with those that failed."""
    wrong = [one for one in found if one.verdict == "failed"]
    named = "".join(f"\n- {one}" for one in wrong)
    parts = [one.as_part() for one in found]
    expect(not wrong, f"{len(wrong)} of {len(found)} tests fail:{named}", parts=parts)
    return parts


@_check()
def attention(subject: Subject) -> list[dict[str, Any]]:
    """Every test of SGLang's attention kit that passes on SGLang's own CPU device passes on the platform; on one that
    declares speculative decoding, those of verification and of draft models pass for dense attention whatever
    SGLang's CPU device does."""
    declared = _SPECULATIVE if subject.platform.supports_speculative_algorithm("EAGLE") else ()
    must = [f"attention: dense, {mode}" for mode in declared]
    return _told(
        [
            one._replace(verdict="failed")
            if one.test.kit in must and one.verdict == "not applicable"
            else one
            for one in _compared(subject)
            if one.test.kit != RADIX
        ]
    )


@_check()
def radix_cache_in_memory(subject: Subject) -> list[dict[str, Any]]:
    """SGLang's cache of prefixes on the device, in each configuration of its kit (`unified_radix_cache`): what was
    stored is found again, branches share their slots with the values in them, evicted slots come back."""
    found = [one for one in _compared(subject) if one.test.kit == RADIX]
    if not found:
        raise NotApplicable("this SGLang does not have it; unified_radix_cache is not in its wheel")
    return _told(found)
