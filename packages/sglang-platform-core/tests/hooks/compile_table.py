"""Writes `docs/hooks_compiled.md`: hooks in what `torch.compile` compiles, ours and those of SGLang's registry.

    python packages/sglang-platform-core/tests/hooks/compile_table.py

Every cell is run: the modules are files of their own, the regions are compiled and called. Then the fused ops that the
example registers, by `../hosts/programs/compile_fused_ops.py`.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from compiled_regions import HOOKS, MODES, TARGETS, Compiled, compiled, ended, wanted

from sglang_platform.core.hooks.registry import HookRegistry, HookType

__all__ = ["PAGE", "page", "rows"]

PAGE = Path(__file__).parents[4] / "docs" / "hooks_compiled.md"
REGIONS = Path(__file__).parent / "modules" / "regions.py"
FUSED_OPS = Path(__file__).parents[1] / "hosts" / "programs" / "compile_fused_ops.py"
ONE = torch.ones(2)
AFTERWARDS = "hooked afterwards"

Hook = Callable[[str, HookType, Callable[..., Any]], None]


def ours(target: str, type_: HookType, hook: Callable[..., Any]) -> None:
    HookRegistry.register(target, hook, type_)


def apply_ours() -> None:
    HookRegistry.apply_hooks()


def sglangs(target: str, type_: HookType, hook: Callable[..., Any]) -> None:
    from sglang.srt.plugins import hook_registry as host

    host.HookRegistry.register(target.replace(":", "."), hook, host.HookType[type_.name])


def apply_sglangs() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry as Host

    Host.apply_hooks()
    Host.reset()


FRAMEWORKS = {"ours": (ours, apply_ours), "SGLang's": (sglangs, apply_sglangs)}


def rows(frameworks: list[str]) -> list[tuple[str, str, dict[tuple[str, str], Compiled]]]:
    """For each hook on each kind of target: how it ended, by framework and mode."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for hooks in HOOKS:
            for kind in TARGETS:
                cells = {}
                for framework in frameworks:
                    for mode in (*MODES, AFTERWARDS):
                        module = _fresh(Path(folder))
                        cells[framework, mode] = _cell(module, framework, hooks, kind, mode)
                        HookRegistry.reset()
                found.append((hooks, kind, cells))
        sys.path.remove(folder)
    return found


def page(frameworks: list[str]) -> str:
    """The page as Markdown."""
    columns = [(framework, mode) for framework in frameworks for mode in (*MODES, AFTERWARDS)]
    head = [mode if framework == "ours" else f"{framework}: {mode}" for framework, mode in columns]
    table = [
        f"| {hooks} | {kind} | {' | '.join(_words(cells[one]) for one in columns)} |"
        for hooks, kind, cells in rows(frameworks)
    ]
    seen = f"torch {torch.__version__}, SGLang {version('sglang')}."
    return "\n".join([INTRODUCTION, seen, "", f"| hooks | on | {' | '.join(head)} |",
                      "|---|---|" + "---|" * len(columns), *table, "", *_of_fused_ops(frameworks)])  # fmt: skip


def _of_fused_ops(frameworks: list[str]) -> list[str]:
    """The table of the ops that the example registers, in a process for each framework, since it needs the platform."""
    environment = {**os.environ, "SGLANG_PLATFORM": "example_oot"}
    found = {
        framework: json.loads(
            subprocess.run(
                [sys.executable, "-W", "ignore", FUSED_OPS, framework],
                env=environment, stdout=subprocess.PIPE, check=True,
            ).stdout
        )
        for framework in frameworks
    }  # fmt: skip
    ops = found[frameworks[0]]
    modes = next(iter(ops.values()))
    head = [mode if framework == "ours" else f"{framework}: {mode}" for framework in found for mode in modes]
    table = [
        f"| `{name.replace(', ', '`, ', 1)}{'' if ', ' in name else '`'} | "
        + " | ".join(_words(Compiled(*cell)) for cells in found.values() for cell in cells[name].values())
        + " |"
        for name in ops
    ]
    return [OF_FUSED_OPS, f"| op | {' | '.join(head)} |", "|---|" + "---|" * len(head), *table, ""]


INTRODUCTION = """\
# Hooks in compiled code

What `torch.compile` does with a region that calls a hooked target. Generated; every cell was run:

```
python packages/sglang-platform-core/tests/hooks/compile_table.py
```

A number is the graph breaks of a call that gave the right result: 0 says that the hooks were traced into one graph.
**stale** is a call that went on without the hooks, **wrong** another result, a name what was raised. `compiled` is
`torch.compile`, `fullgraph` with `fullgraph=True`; `in pieces`: the graph cut at an operator, as SGLang cuts a model at
its attention layers; `hooked afterwards`: hooks registered after the region was compiled and called. There torch looks
again at names in modules, and takes what a class has for constant: core lets it trace again.
"""

OF_FUSED_OPS = """\
## Fused ops

The forwards that the example registers, each on SGLang's own object of the op, new for every cell, on the example's
device. Right is bit for bit what the call gives that is not compiled, in what it writes in place as well. **left**:
the registered forward took no part. Beside it the same forwards on SGLang's own classes
(`BaseFusedOp.register_oot_forward`): the op keeps its forward as a method bound to it, and compiled code asks the op
for an attribute of that function's name. An op that has been called before it is compiled has its forward already.
"""


def _fresh(folder: Path) -> ModuleType:
    """The regions as a module that nothing has hooked or compiled yet."""
    name = f"regions_{len(list(folder.glob('*.py')))}"
    (folder / f"{name}.py").write_text(REGIONS.read_text())
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _cell(module: ModuleType, framework: str, hooks: str, kind: str, mode: str) -> Compiled:
    path, name = TARGETS[kind]
    register, apply = FRAMEWORKS[framework]
    region, expected = getattr(module, name), wanted(kind, hooks)
    if mode != AFTERWARDS:
        _put(module, path, hooks, register, apply)
        return ended(compiled(region, mode), expected)
    plain, call = region(ONE), compiled(region, "fullgraph")
    assert ended(call, plain) == Compiled(True, 0)
    _put(module, path, hooks, register, apply)
    result = ended(call, expected)
    stale = not result.right and not result.error and ended(call, plain).right
    return result._replace(error="**stale**") if stale else result


def _put(module: ModuleType, path: str, hooks: str, register: Hook, apply: Callable[[], None]) -> None:
    for type_, hook in HOOKS[hooks]:
        register(f"{module.__name__}:{path}", type_, hook)
    apply()


def _words(cell: Compiled) -> str:
    return str(cell.breaks) if cell.right else cell.error or "**wrong**"


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    PAGE.write_text(page(list(FRAMEWORKS)))
