"""Level 10: SGLang's own attention kit, each of its methods in each of its runner modes."""

from __future__ import annotations

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.kits.attention import compared
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SPECULATIVE = ("target verify", "draft extend", "draft runners")


@check(
    level=Level.KITS,
    requires=[engine(), attention_backend()],
    hosts=("sglang",),
    seconds=1200,
    fix="run `python -m sglang_platform.conformance.kits.attention PLATFORM`: it names each test and its first error",
)
def attention(subject: Subject) -> None:
    """Every test of SGLang's attention kit that passes on SGLang's own CPU device passes on the platform; on one that
    declares speculative decoding, those of verification and of draft models pass for dense attention whatever
    SGLang's CPU device does."""
    try:
        backend = subject.platform.get_default_attention_backend()
    except NotImplementedError as error:
        raise NotApplicable(f"the platform leaves the attention to SGLang: {error}") from None
    outcomes = compared(subject.name, subject.parts.device_argument, backend)
    failed = [one for one in outcomes if one.failed]
    if subject.platform.supports_speculative_algorithm("EAGLE"):
        failed += [
            one
            for one in outcomes
            if one.method == "dense" and one.mode in _SPECULATIVE and not one.passed and not one.failed
        ]
    named = "".join(f"\n- {one}" for one in failed)
    expect(not failed, f"{len(failed)} of {len(outcomes)} tests fail:{named}")
