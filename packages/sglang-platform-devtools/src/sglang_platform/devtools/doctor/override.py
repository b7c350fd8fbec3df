"""One vendor override of an SGLang method: its kind, whether it accepts SGLang's calls and returns as many values."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.contract.signatures import broken_calls, without_annotations
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.devtools.doctor.host_source import HostSource
from sglang_platform.devtools.doctor.read_class import CALLED, ReadClass, ReadPart
from sglang_platform.devtools.hook_check.returns import values_given
from sglang_platform.devtools.host_calls import Call

__all__ = ["Override"]

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Override(NamedTuple):
    """The override of SGLang's `theirs.name` by a vendor's `klass.name`; `cls` inherits from both classes.

    of_platform: SGLang defines the interface, and any difference counts. made_by_host: SGLang constructs the objects.
    """

    cls: ReadClass
    klass: ReadPart
    name: str
    theirs: ReadPart
    host: HostSource
    of_platform: bool
    made_by_host: bool = True

    def __str__(self) -> str:
        return f"{self.klass.name}.{self.name}"

    def examined(self) -> Iterator[Finding]:
        mine, wanted = self.klass.members[self.name].kind, self.theirs.members[self.name].kind
        if "unknown" in (mine, wanted):
            return
        if mine in CALLED and wanted in CALLED:
            yield from self._wrong_signature()
            yield from self._other_number_of_values()
        elif (mine in CALLED) != (wanted in CALLED) and (self.of_platform or "property" in (mine, wanted)):
            reads = f"calls {self.name}()" if wanted in CALLED else f"reads {self.name} as an attribute"
            yield Finding(
                "override-kind",
                "problem",
                f"{self} is a {mine}, and {self.host} {reads}",
                None,
                f"{self.theirs.name}.{self.name} is a {wanted}",
                f"write a {wanted}"
                if wanted in CALLED
                else "assign it in the class body, or make it a property",
                self.klass.members[self.name].place,
            )

    def _wrong_signature(self) -> Iterator[Finding]:
        """A finding if the override rejects calls of the original signature.

        For a platform any difference is reported. For a part it is reported only if a call in SGLang, or a call with
        the required arguments, fails: often only the vendor's own attention backend calls a pool.
        """
        contract, override = (
            self.theirs.members[self.name].signature,
            self.klass.members[self.name].signature,
        )
        if contract is None or override is None:
            return
        is_made = self.name == "__init__"
        plain = [p for p in contract.parameters.values() if p.kind not in _VARIADIC]
        takes_anything = bool(contract.parameters) and not plain
        broken = broken_calls(
            contract.replace(parameters=plain) if not self.of_platform else contract, override
        )
        if not broken or (is_made and not self.made_by_host):
            return
        calls = [] if is_made else self._calls()
        call = next(
            (one for one in calls if one.is_taken_by(contract) and not one.is_taken_by(override)), None
        )
        required = (
            contract
            if self.of_platform
            else contract.replace(parameters=[p for p in plain if p.default is p.empty])
        )
        fails = (
            not takes_anything
            and not (self.of_platform and calls)
            and not _takes_plain_calls(required, override, by_name=is_made)
        )
        if not self.of_platform and call is None and (not fails or (calls and not self.made_by_host)):
            return
        label = without_annotations(contract)
        shown = (
            f"{self.name}{label}" if not takes_anything else f"{self.name} with the arguments of that call"
        )
        yield Finding(
            "override-signature",
            "problem" if fails or (self.of_platform and call is not None) else "warning",
            f"{self}{without_annotations(override)} does not take the calls of {self.host}",
            None,
            "it " + "; it ".join(broken) + (f"; {self.host} calls {call}" if call is not None else ""),
            f"write it as {shown}",
            self.klass.members[self.name].place,
        )

    def _calls(self) -> list[Call]:
        """The calls in SGLang that may reach it; of a platform, those on an object of such a name."""
        own = {part.module for part in self.cls.mro if part.wrote == "host"}
        return self.host.calls(self.name, "platform" if self.of_platform else "", own)

    def _other_number_of_values(self) -> Iterator[Finding]:
        """A problem if it returns a different number of values than SGLang's method, or than its callers unpack."""
        mine = self.klass.members[self.name]
        given = values_given(mine.node)
        if given is None or mine.node is None:
            return
        wanted = values_given(self.theirs.members[self.name].node)
        why = f"{self.theirs.name}.{self.name} gives {wanted}"
        if wanted is None:
            taken = self.host.taken_apart(self.name)
            if taken is None:
                return
            wanted, call = taken
            why = f"it takes {wanted}: {call}"
        if wanted == given:
            return
        line = min(
            one.lineno
            for one in ast.walk(mine.node)
            if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple)
        )
        at = f" (line {line})" if mine.place is not None else ""
        yield Finding(
            "override-values",
            "problem",
            f"{self} gives {given} values{at}, and {self.host} takes {wanted}",
            None,
            why,
            f"return {wanted} values, as {self.theirs.name}.{self.name} does",
            mine.place,
        )


def _takes_plain_calls(
    contract: inspect.Signature, override: inspect.Signature, by_name: bool = False
) -> bool:
    """Whether `override` accepts positional (`by_name`: keyword) calls with all and with the required parameters."""
    parameters = [p for p in contract.parameters.values() if p.kind not in _VARIADIC]
    for chosen in (parameters, [one for one in parameters if one.default is one.empty]):
        positional = [
            None
            for p in chosen
            if p.kind is p.POSITIONAL_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and not by_name)
        ]
        keywords = {
            p.name: None
            for p in chosen
            if p.kind is p.KEYWORD_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and by_name)
        }
        try:
            override.bind(*positional, **keywords)
        except TypeError:
            return False
    return True
