"""Checks of the functions that entry points name: one in the wrong group is called and silently changes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import GENERAL_GROUP, PLATFORM_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.changes import is_ours
from sglang_platform.devtools.doctor.platform_location import returned_texts, returns_of
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.signatures import signature_of, yields

__all__ = ["examine_entry_functions"]


def examine_entry_functions(lookup: Lookup) -> Iterator[Finding]:
    """The findings: platforms in the general plugins' group, functions that return nothing in the platforms' group, and
    functions that cannot be called without arguments."""
    for group in (PLATFORM_GROUP, GENERAL_GROUP):
        for record in scan.records(group):
            module, attribute = reference(record.value)
            answer = lookup.find(Address(module, tuple(attribute.split("."))))
            if is_ours(record.origin) or not isinstance(answer, Definition):
                continue
            home = lookup.module_of(answer)
            if isinstance(answer.node, ast.FunctionDef) and home is not None:
                where = f"{home.path}:{answer.node.lineno}"
                for finding in _examine(record, group, answer.node, lookup, module, attribute):
                    yield finding._replace(where=where)


def _examine(
    record: EntryPointRecord, group: str, node: ast.FunctionDef, lookup: Lookup, module: str, attribute: str
) -> Iterator[Finding]:
    line, origin = f"{record.name} = {record.value}", record.origin
    if not node.decorator_list:
        wanted = [one for one in signature_of(node.args).parameters.values() if one.default is one.empty]
        required = [one.name for one in wanted if not one.kind.name.startswith("VAR_")]
        if required:
            yield Finding(
                "host-call-refused",
                "problem",
                f"SGLang calls {attribute}() without arguments, and it requires {', '.join(required)}",
                origin,
                f"{line} in {group}; SGLang logs the TypeError and goes on without the plugin",
                f"write it as def {attribute}()",
            )
    texts = list(returned_texts(lookup, module, attribute))
    if group == GENERAL_GROUP and texts:
        yield _wrong(line, record, f"answers {texts[0]!r}, which SGLang leaves unread there", PLATFORM_GROUP)
    elif (
        group == PLATFORM_GROUP
        and not list(returns_of(node))
        and not yields(node)
        and not node.decorator_list
        and not isinstance(node.body[-1], ast.Raise)
    ):
        why = "answers nothing, which SGLang takes for `not on this machine`"
        yield _wrong(line, record, why, GENERAL_GROUP)


def _wrong(line: str, record: EntryPointRecord, why: str, meant: str) -> Finding:
    what = f"the entry point {record.name!r} is in {record.group}, and its function is none for it"
    fix = f'move `{record.name}` to [project.entry-points."{meant}"], and install {record.origin.distribution} again'
    return Finding("group-wrong", "problem", what, record.origin, f"{line}: the function {why}", fix)
