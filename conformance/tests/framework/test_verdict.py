"""The verdict: what can be called conformant, and what never can."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.profiles import edition, profile, profiles
from sglang_platform.conformance.verdict import EXIT_STATUS, judge


def _outcome(name: str, status: str = "passed", cause: str | None = None) -> dict[str, Any]:
    fields = {"id": name, "status": status, "cause": cause, "why": "for a reason"}
    return {**fields, "failing": [], "widened": []}


def _all(name: str = "core", **changed: dict[str, Any]) -> list[dict[str, Any]]:
    made = {check: _outcome(check) for check in profile(name).checks}
    return list({**made, **{one["id"]: one for one in changed.values()}}.values())


_ONE = "host.tokens_equal_transformers"


def test_all_that_is_required_and_passed_is_conformant() -> None:
    verdict = judge(_all(), ["core"])
    assert (verdict.word, verdict.headline) == ("conformant", "conformant to core")
    assert EXIT_STATUS[verdict.word] == 0


def test_one_failure_is_not_conformant_also_in_a_check_of_no_profile() -> None:
    for name in (_ONE, "features.lora_two_adapters"):
        verdict = judge(_all(one=_outcome(name, "failed")), ["core"])
        assert verdict.headline == "not conformant to core: 1 check failed"
        assert EXIT_STATUS[verdict.word] == 1


@pytest.mark.parametrize("status", ["failed", "blocked", "unexpected_pass"])
def test_every_bad_end_is_a_failure(status: str) -> None:
    assert judge(_all(one=_outcome(_ONE, status)), ["core"]).word == "not conformant"


@pytest.mark.parametrize(
    ("cause", "said"),
    [("device", "1 no device"), ("host", "1 no SGLang"), ("extra", "1 no extra"), ("refused", "1 refused")],
)
def test_a_required_check_that_was_not_run_makes_it_incomplete(cause: str, said: str) -> None:
    verdict = judge(_all(one=_outcome(_ONE, "not_run", cause)), ["core"])
    assert EXIT_STATUS[verdict.word] == 3
    assert (
        verdict.headline == f"incomplete: 1 of {len(profile('core').checks)} checks of core not run ({said})"
    )


def test_one_check_alone_is_never_conformant() -> None:
    verdict = judge([_outcome(_ONE)], ["core"])
    assert verdict.word == "incomplete"
    assert "not selected" in verdict.headline


def test_a_waiver_is_in_the_headline_and_never_conformant() -> None:
    verdict = judge(_all(one=_outcome(_ONE, "expected_failure")), ["core"])
    assert verdict.word == "incomplete"
    assert verdict.headline.endswith("(1 expected failure); 1 check waived")
    elsewhere = judge(_all(one=_outcome("features.lora_two_adapters", "expected_failure")), ["core"])
    assert elsewhere.headline == "conformant to core; 1 check waived"


def test_what_is_not_brought_counts_only_where_the_profile_needs_it() -> None:
    brought = profile("core").if_brought[0]
    assert judge(_all(one=_outcome(brought, "not_applicable")), ["core"]).word == "conformant"
    needed = judge(_all(one=_outcome(_ONE, "not_applicable")), ["core"])
    assert needed.headline.endswith("(1 not declared)")
    assert judge(_all(one=_outcome(brought, "not_run", "device")), ["core"]).word == "incomplete"


def test_without_the_device_the_headline_says_so() -> None:
    verdict = judge(_all("offline"), ["offline"], device_absent=True)
    assert verdict.headline == "conformant to offline; not proven on hardware"
    assert judge(_all("offline"), ["offline", "core"], device_absent=True).word == "incomplete"


def test_no_profile_is_no_verdict() -> None:
    assert judge(_all(), []).word == "incomplete"


def test_an_unknown_profile_is_told_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'structured'"):
        judge([], ["structred"])


def test_profiles_name_checks_that_exist_and_every_check_but_the_kits_has_one() -> None:
    known = registered()
    named = {name for one in profiles().values() for name in one.checks}
    assert named <= set(known)
    assert all(not set(one.required) & set(one.if_brought) for one in profiles().values())
    left = {name for name, check in known.items() if check.level is not Level.KITS} - named
    assert {name for name in left if not name.startswith("features.")} == set()


def test_what_only_the_device_can_answer_is_not_in_the_profile_without_it() -> None:
    known = registered()
    assert not [name for name in profile("offline").checks if known[name].needs == "device"]
    assert not [name for name in profile("offline").checks if "none" not in known[name].hosts]


def test_an_edition_is_named() -> None:
    assert edition() == "2"
    assert list(profiles())[:2] == ["offline", "core"]


def test_a_plugin_on_the_hosts_classes_can_be_conformant_to_core() -> None:
    known = registered()
    on_the_contract_alone = [
        name
        for name in profile("core").required
        if known[name].hosts == ("none",) and known[name].needs != "source"
    ]
    assert on_the_contract_alone == []
