"""Level 2: the plugin's source against the host's, read without importing either.

So a vendor learns without its device, and on any machine, what another release of SGLang means for the plugin.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotRun, check
from sglang_platform.conformance.checks.findings import problems
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="use today's name and signature; a name of your own starts with an underscore",
)
def overrides_are_called(subject: Subject) -> None:
    """No method of the platform class is dead: each has a name that the host calls, and is reached by it."""
    problems(subject, ("platform-class-nowhere", "override-dead", "override-unreached", "contract-broken"))


@check(level=Level.CONTRACT, needs="source", fix="take the parameters that the host passes")
def overrides_take_the_hosts_calls(subject: Subject) -> None:
    """Each override takes the calls of the installed SGLang, and is a method where it wants a method."""
    problems(subject, ("override-signature", "override-kind"))


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="correct the target for the installed SGLang; `sglang-platform hooks check --host VERSION` reads any release",
)
def hook_targets_exist(subject: Subject) -> None:
    """What the plugin hooks exists in the installed SGLang, where it was, and takes the hook's signature."""
    _host()
    rows = [row for row in _hook_rows(subject) if row.is_problem]
    if not rows:
        return
    lines = []
    for row in rows:
        moved = f"; it is at {', '.join(row.moved_to)} now" if row.moved_to else ""
        near = f"; did you mean {row.nearest[0]}?" if row.nearest and not row.moved_to else ""
        why = f" ({row.why})" if row.why else ""
        lines.append(f"{row.wanted.target} is {row.verdict}{moved}{near}{why}, hooked at {row.wanted.where}")
    fixes = [f"hook {row.moved_to[0]}" for row in rows if row.moved_to]
    fixes += [f"hook {row.nearest[0]}" for row in rows if row.nearest and not row.moved_to]
    raise CheckFailed("\n".join(lines), fix="; ".join(fixes) or None)


def _hook_rows(subject: Subject) -> list[Any]:
    from sglang_platform.core.errors import PlatformError
    from sglang_platform.core.inspect.hook_check.check import check as check_hooks
    from sglang_platform.core.inspect.hook_check.hosts import open_host
    from sglang_platform.core.inspect.hook_check.plugin import open_plugin, package_of, read_hooks

    if subject.module is None:
        return []
    try:
        found = read_hooks(open_plugin(package_of(subject.module)), subject.name)
        wanted = [hook for hook in found.hooks if hook.target.startswith("sglang.")]
        return list(check_hooks(wanted, open_host("installed", {"sglang"}))) if wanted else []
    except PlatformError as error:
        raise NotRun(f"the hooks cannot be read: {error}") from None


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="import it from where it is now, or guard the import with `except ImportError` and do without",
)
def host_imports_exist(subject: Subject) -> None:
    """Every module and name of SGLang that the plugin imports, in its factories too, exists in the installed one."""
    from sglang_platform.core.hooks import existence
    from sglang_platform.core.hooks.targets import Address, find_module

    _host()
    missing: list[str] = []
    near: list[str] = []
    try:
        for module, name, place in _host_imports(subject):
            if find_module(module) is None:
                missing.append(f"the module {module} does not exist (imported at {place})")
            elif name is not None and find_module(f"{module}.{name}") is None:
                verdict = existence.check(Address(module, (name,)))
                if verdict.answer == "missing":
                    missing.append(f"{module} has no {name} (imported at {place})")
                    near += verdict.nearest[:1]
    finally:
        existence.forget()
    if missing:
        version = _host()
        fix = f"did you mean {', '.join(near)}?" if near else None
        raise CheckFailed(f"in SGLang {version}: " + "; ".join(dict.fromkeys(missing)), fix=fix)


def _host_imports(subject: Subject) -> Iterator[tuple[str, str | None, str]]:
    for _, path in subject.sources:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.Try) and node.handlers
            for statement in node.body
            for inner in ast.walk(statement)
        }
        for node in ast.walk(tree):
            if id(node) in guarded:
                continue
            place = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == "sglang":
                        yield alias.name, None, place
            elif (
                isinstance(node, ast.ImportFrom)
                and not node.level
                and (node.module or "").partition(".")[0] == "sglang"
            ):
                for alias in node.names:
                    yield node.module or "", None if alias.name == "*" else alias.name, place


@cache
def _host() -> str:
    """The installed SGLang's version. Raises NotRun where there is none; it is not imported."""
    from importlib import metadata

    if find_spec("sglang") is None:
        raise NotRun("SGLang is not installed: its source is what the plugin's is compared with")
    try:
        return metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return "of unknown version"
