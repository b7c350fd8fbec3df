"""Level 2: the plugin's source against the host's, read without importing either, by `sglang-platform doctor`.

So a vendor learns without its device, and on any machine, what another release of SGLang means for the plugin.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from sglang_platform.conformance.check import NotRun, check
from sglang_platform.conformance.checks.findings import problems
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_check = partial(check, level=Level.CONTRACT, needs="source", seconds=200)


@_check(fix="use today's name and signature; a name of your own starts with an underscore")
def overrides_are_called(subject: Subject) -> None:
    """No method of the platform class is dead: each has a name that the host calls, and is reached by it."""
    problems(subject, ("platform-class-nowhere", "override-dead", "override-unreached"))


@_check(fix="take the parameters that the host passes")
def overrides_take_the_hosts_calls(subject: Subject) -> None:
    """Each override takes the calls of the installed SGLang, and is a method where it wants a method."""
    problems(subject, ("override-signature", "override-kind"))


@_check(
    fix="correct the target for the installed SGLang; `sglang-platform hooks check --host VERSION` reads any release"
)
def hook_targets_exist(subject: Subject) -> None:
    """What the plugin hooks exists in the installed SGLang, where it was, and takes the hook's signature; the target of
    an optional hook may be missing, if it is not a name nearly spelt as one that the plugin does not hook."""
    _on_host(subject, "hook-malformed", "hook-missing", "hook-moved", "hook-changed", "hook-bypassed")


@_check(fix="import it from where it is now, or guard the import with `except ImportError` and do without")
def host_imports_exist(subject: Subject) -> None:
    """Every module and name of SGLang that the plugin imports, in its factories too, exists in the installed one."""
    _on_host(subject, "host-import-missing")


def _on_host(subject: Subject, *ids: str) -> None:
    """`problems`. Raises NotRun where there is no SGLang to compare with; it is not imported."""
    if find_spec("sglang") is None:
        raise NotRun(
            "SGLang is not installed: its source is what the plugin's is compared with", cause="host"
        )
    problems(subject, ids)
