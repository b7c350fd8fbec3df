"""One vendor override of an SGLang method: checks that it accepts SGLang's calls and returns as many values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

from sglang_platform.core.contract.signatures import bound_signature, broken_calls, without_annotations
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.devtools.doctor.host_source import HostSource, is_hosts
from sglang_platform.devtools.hook_check.returns import values_given
from sglang_platform.devtools.host_calls import Call
from sglang_platform.devtools.source.opening import package_files
from sglang_platform.devtools.written import place_of, values_of

__all__ = ["Override", "takes_plain_calls", "used_by_its_vendor"]

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Override:
    """The override of SGLang's `theirs.name` by a vendor's `klass.name`; `cls` inherits from both classes."""

    def __init__(
        self, cls: type, klass: type, name: str, theirs: type, origin: PluginOrigin, host: HostSource
    ) -> None:
        self.cls, self.klass, self.name, self.theirs = cls, klass, name, theirs
        self.origin, self.host = origin, host
        self.contract = bound_signature(vars(theirs)[name], theirs)
        self.signature = bound_signature(vars(klass)[name], klass)

    def calls(self, receiver: str = "") -> list[Call]:
        """The calls in SGLang that may reach it. `receiver`: a word that the object's name contains."""
        own = {klass.__module__ for klass in self.cls.__mro__ if is_hosts(klass)}
        return self.host.calls(self.name, receiver, own)

    def wrong_signature(self, *, of_platform: bool, made_by_host: bool = True) -> Iterator[Finding]:
        """A finding if the override rejects calls of the original signature.

        For a platform any difference is reported, since SGLang defines the interface. For a part it is reported only if
        a call in SGLang, or a call with the required arguments, fails: often only the vendor's own attention backend
        calls a pool.
        """
        contract, override = self.contract, self.signature
        if contract is None or override is None:
            return
        is_made, plain = (
            self.name == "__init__",
            [p for p in contract.parameters.values() if p.kind not in _VARIADIC],
        )
        takes_anything = bool(contract.parameters) and not plain
        broken = broken_calls(contract.replace(parameters=plain) if not of_platform else contract, override)
        if not broken or (is_made and not made_by_host):
            return
        calls = [] if is_made else self.calls("platform" if of_platform else "")
        call = next(
            (one for one in calls if one.is_taken_by(contract) and not one.is_taken_by(override)), None
        )
        required = (
            contract
            if of_platform
            else contract.replace(parameters=[p for p in plain if p.default is p.empty])
        )
        fails = (
            not takes_anything
            and not (of_platform and calls)
            and not takes_plain_calls(required, override, by_name=is_made)
        )
        if not of_platform and call is None and (not fails or (calls and not made_by_host)):
            return
        label = without_annotations(contract)
        written = f"{self.klass.__qualname__}.{self.name}{without_annotations(override)}"
        shown = (
            f"{self.name}{label}" if not takes_anything else f"{self.name} with the arguments of that call"
        )
        yield Finding(
            "override-signature",
            "problem" if fails or (of_platform and call is not None) else "warning",
            f"{written} does not take the calls of {self.host}",
            self.origin,
            "it " + "; it ".join(broken) + (f"; {self.host} calls {call}" if call is not None else ""),
            f"write it as {shown}",
            place_of(self.klass, self.name),
        )

    def other_number_of_values(self) -> Iterator[Finding]:
        """A problem if it returns a different number of values than SGLang's method, or than its callers unpack."""
        given, line = values_of(vars(self.klass)[self.name], values_given)
        if given is None:
            return
        wanted, _ = values_of(vars(self.theirs)[self.name], values_given)
        why = f"{self.theirs.__qualname__}.{self.name} gives {wanted}"
        if wanted is None:
            taken = self.host.taken_apart(self.name)
            if taken is None:
                return
            wanted, call = taken
            why = f"it takes {wanted}: {call}"
        if wanted == given:
            return
        place = place_of(self.klass, self.name)
        at = f" (line {line})" if place is not None else ""
        yield Finding(
            "override-values",
            "problem",
            f"{self.klass.__qualname__}.{self.name} gives {given} values{at}, and {self.host} takes {wanted}",
            self.origin,
            why,
            f"return {wanted} values, as {self.theirs.__qualname__}.{self.name} does",
            place,
        )


def takes_plain_calls(
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


def used_by_its_vendor(klass: type, name: str) -> bool:
    """Whether the vendor's own package mentions the name outside its definition."""
    said: Callable[[bytes], list[bytes]] = re.compile(rb"\b%s\b" % name.encode()).findall
    defined: Callable[[bytes], list[bytes]] = re.compile(rb"\bdef\s+%s\b" % name.encode()).findall
    texts = [path.read_bytes() for _, path in package_files(klass.__module__)]
    return sum(len(said(text)) for text in texts) > sum(len(defined(text)) for text in texts)
