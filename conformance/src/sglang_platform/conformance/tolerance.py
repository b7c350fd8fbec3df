"""Bounds that the vendor's file widens for a type, in the process that runs the check: how much, and whether needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_platform.conformance.case_ids import full_id
from sglang_platform.conformance.expectation import Tolerance

__all__ = ["CURRENT", "Tolerances"]


class Tolerances:
    """Those for the case in progress. `widened` tells which were needed by a case: see `Outcome.widened`."""

    def __init__(self) -> None:
        self._rules: list[Tolerance] = []
        self._check = self._name = ""
        self.widened: list[dict[str, Any]] = []

    def begin(self, check: str, rules: Sequence[Tolerance]) -> None:
        """A check begins, under these rules, which apply."""
        self._rules = [one for one in rules if one.is_about(check)]
        self._check, self._name, self.widened = check, check, []

    def case(self, name: str) -> None:
        """A case of it begins."""
        self._name = full_id(self._check, name)

    def judged(self, ratio: float, dtype: Any) -> float:
        """`ratio` is an error over its bound. At most 1 where a tolerance for the type covers it."""
        if ratio <= 1:
            return ratio
        for rule in self._rules:
            if f"torch.{rule.dtype}" == str(dtype) and rule.covers(self._name) and ratio <= rule.factor:
                self._use(rule, ratio)
                return 1.0
        return ratio

    def _use(self, rule: Tolerance, ratio: float) -> None:
        told = {"checks": rule.checks, "dtype": rule.dtype, "factor": rule.factor, "reason": rule.reason}
        for one in self.widened:
            if all(one[name] == value for name, value in told.items()):
                one["needed"] = max(one["needed"], round(ratio, 3))
                return
        self.widened.append({**told, "needed": round(ratio, 3)})


CURRENT = Tolerances()
"""Of this process: checks are functions of a subject and a case, and bounds are compared deep inside them."""
