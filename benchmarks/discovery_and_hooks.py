"""Discovery and hooks against SGLang's framework, wrapt, pluggy and the two readers of metadata, in one run.

    python benchmarks/discovery_and_hooks.py [--quick] [--results FOLDER]

Rows 1 to 4 of what this project holds itself to: import of core and listing of installed plugins, registering 50 hooks
in a fresh process, a hooked call, and `current_platform.x`. Writes `discovery_and_hooks.json` and a plot beside it. It
judges nothing: a missed aim is a row of the table, and the exit status is 0.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import hooked_calls
import plot
from listing import listing
from measure import OURS, Aim, FreshPython, against, nanoseconds, row, spread

PACKAGES = ("sglang-platform-core", "sglang", "wrapt", "pluggy", "importlib_metadata", "torch", "matplotlib")
Row = dict[str, Any]


class Repeats(NamedTuple):
    processes: int
    slow_processes: int
    """Of those that import SGLang: seconds each."""
    listings: int
    calls: int


FULL, QUICK = Repeats(31, 9, 15, 101), Repeats(3, 1, 2, 11)


# Row 1 and 2: fresh processes

_IMPORTS = {
    OURS: "import sglang_platform.core",
    f"{OURS}, names": "from sglang_platform.core import HookRegistry, HookType, SRTPlatform, current_platform, "
    "load_plugins, platform_plugin, plugin_hook",
    "pluggy": "import pluggy",
    "wrapt": "import wrapt",
    "importlib.metadata": "import importlib.metadata",
    "importlib_metadata": "import importlib_metadata",
}
_SGLANG = """
try:
    import _torchvision_cpu_ops
except ImportError:
    pass
"""
"""Lets SGLang import without a GPU, where the environment was built for that."""

_REGISTER = """
def hook(*args, **kwargs):
    return None
for i in range(50):
    HookRegistry.register(f"sglang.srt.managers.scheduler.Scheduler.method_{i}", hook, HookType.BEFORE)
"""
_REGISTRATIONS = {
    OURS: "from sglang_platform.core import HookRegistry, HookType" + _REGISTER,
    "wrapt": """
import wrapt
def hook(module):
    return None
for i in range(50):
    wrapt.register_post_import_hook(hook, f"sglang.module_{i}")
""",
    "pluggy": """
import pluggy
specify, implement = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")
manager, make = pluggy.PluginManager("bench"), lambda: lambda self: None
manager.add_hookspecs(type("Specification", (), {f"method_{i}": specify(make()) for i in range(50)}))
manager.register(type("Plugin", (), {f"method_{i}": implement(make()) for i in range(50)})())
""",
}
_SGLANG_FRAMEWORK = "from sglang.srt.plugins.hook_registry import HookRegistry, HookType"


def fresh_processes(python: FreshPython, repeats: Repeats) -> Iterator[Row]:
    codes = {f"import {name}": code for name, code in _IMPORTS.items()}
    codes |= {f"register {name}": code for name, code in _REGISTRATIONS.items()}
    targets = real_targets()
    codes["apply"] = (
        "from sglang_platform.core import HookRegistry, HookType\n"
        f"for target in {targets!r}:\n"
        "    HookRegistry.register(target, lambda *args, **kwargs: None, HookType.BEFORE)\n"
        "HookRegistry.apply_hooks()\n"
    )
    light = python.compare(codes, repeats.processes)
    slow = python.compare(
        {
            "import": _IMPORTS[OURS],
            "import SGLang": _SGLANG + "import sglang.srt.platforms, sglang.srt.plugins",
            "register": _REGISTRATIONS[OURS],
            "register SGLang": _SGLANG + _SGLANG_FRAMEWORK + _REGISTER,
        },
        repeats.slow_processes,
    )
    listed = "import sys; print(*sorted({'torch', 'numpy', 'sglang'} & set(sys.modules)))"
    loaded = python.output(f"{_IMPORTS[f'{OURS}, names']}\n{listed}").split()

    def result(
        name: str, case: str, ours: str, prefix: str, aim: Aim | None, peers: list[str], **more: Any
    ) -> Row:
        chosen = {OURS: light[ours], **{peer: light[f"{prefix} {peer}"] for peer in peers}}
        found = row(name, case, "ms", {peer: times.cpu for peer, times in chosen.items()}, aim, **more)
        if peers:
            theirs = chosen["SGLang"] = slow[f"{prefix} SGLang"]
            found["times"]["SGLang"] = spread(theirs.cpu)
            found["ours_over"]["SGLang"] = against(slow[prefix].cpu, theirs.cpu)
        found["wall"] = {peer: spread(times.wall) for peer, times in chosen.items()}
        return found

    peers = ["pluggy", "wrapt", "importlib.metadata", "importlib_metadata"]
    aim = Aim("under 30 ms, no torch", 30)
    yield result("import", "the package", f"import {OURS}", "import", aim, peers)
    ours = f"import {OURS}, names"
    yield result(
        "import", "seven of its names", ours, "import", aim, peers, loaded_of_torch_numpy_sglang=loaded
    )
    aim = Aim("under 20 ms", 20)
    yield result("register", "50 hooks", f"register {OURS}", "register", aim, ["pluggy", "wrapt"])
    yield result("register", "50 hooks of SGLang, apply", "apply", "", None, [])


def package_file(name: str) -> Path:
    """The `__init__` of an installed package; a top-level one is not imported for it."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed here")
    return Path(found.origin)


def real_targets() -> list[str]:
    """50 methods of SGLang's, by name, read from its source."""
    sources = package_file("sglang").parent / "srt"
    homes = {
        "managers.scheduler": "Scheduler",
        "managers.tokenizer_manager": "TokenizerManager",
        "model_executor.model_runner": "ModelRunner",
        "mem_cache.memory_pool": "MHATokenToKVPool",
        "layers.quantization.fp8": "Fp8LinearMethod",
        "sampling.sampling_params": "SamplingParams",
        "server_args": "ServerArgs",
    }
    names: list[str] = []
    for module, class_name in homes.items():
        source = sources / (module.replace(".", "/") + ".py")
        body = next(
            node.body
            for node in ast.parse(source.read_text()).body
            if isinstance(node, ast.ClassDef) and node.name == class_name
        )
        methods = dict.fromkeys(node.name for node in body if isinstance(node, ast.FunctionDef))
        names += [f"sglang.srt.{module}:{class_name}.{method}" for method in list(methods)[:10]]
    return names[:50]


# Row 3: a hooked call

_FLOOR_AIM = Aim("within 1.3x of the floor", 1.3, hooked_calls.FLOOR)
# A hook with `*args, **kwargs` sees by which names a call came, so the floor is the frame that hands them on.
_ANY_ARGUMENTS_AIM = Aim("within 1.3x of any arguments", 1.3, hooked_calls.ANY_ARGUMENTS)


def calls(folder: Path, repeats: Repeats) -> Iterator[Row]:
    contenders = hooked_calls.contenders(folder)
    for case in hooked_calls.cases():
        times = nanoseconds(
            {name: statements[case] for name, statements in contenders.items() if case in statements},
            repeats.calls,
        )
        name = f"{case.scenario.title}: {case.type}, {case.depth} deep"
        aim = _ANY_ARGUMENTS_AIM if case.scenario.any_arguments else _FLOOR_AIM
        yield row("hooked call", name, "ns", times, None if case.type == "REPLACE" else aim)


# Row 4: current_platform


def current_platform(repeats: Repeats) -> Iterator[Row]:
    """Ours is resolved outside a host, before SGLang is imported."""
    import wrapt

    from sglang_platform import core

    ours = core.current_platform
    plain = type("Platform", (), {"device_name": "cpu", "is_cuda": lambda self: False})()
    lazy = wrapt.LazyObjectProxy(lambda: plain)
    for access in ("device_name", "is_cuda()"):
        exec(f"platform.{access}", {"platform": ours})
    resolved = type(ours)
    import sglang.srt.platforms

    if sglang.srt.platforms.current_platform is ours or type(ours) is not resolved:
        raise AssertionError(
            "the host's platform is ours: unset SGLANG_PLATFORM to measure them side by side"
        )
    for access, aim in (("device_name", Aim("under 80 ns", 80)), ("is_cuda()", None)):
        times = nanoseconds(
            {
                "plain object": (f"platform.{access}", {"platform": plain}),
                OURS: (f"current_platform.{access}", {"current_platform": ours}),
                "SGLang": (f"platforms.current_platform.{access}", {"platforms": sglang.srt.platforms}),
                "wrapt": (f"platform.{access}", {"platform": lazy}),
            },
            repeats.calls,
        )
        yield row("current_platform", access, "ns", times, aim)


def environment() -> dict[str, Any]:
    with open("/proc/cpuinfo") as file:  # noqa: PTH123
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "system": platform.system() + " " + platform.release().split("-")[0],
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "load_at_start": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it runs")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    repeats = QUICK if options.quick else FULL
    logging.disable(logging.WARNING)  # SGLang warns of each stack of AROUND hooks

    rows: list[Row] = []
    report: dict[str, Any] = {"repeats": repeats._asdict(), "environment": environment(), "rows": rows}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = package_file("sglang_platform.core").parents[2], package_file("sglang").parents[1]
        python = FreshPython(folder / "python", packages)
        # Those in this process come last, the one that imports SGLang at the very end of them.
        for part in (
            fresh_processes(python, repeats),
            listing(python, folder, repeats.listings),
            current_platform(repeats),
            calls(folder, repeats),
        ):
            rows.extend(part)
            print(f"{rows[-1]['row']}: done", file=sys.stderr)
    report["environment"]["load_at_end"] = os.getloadavg()
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "discovery_and_hooks.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    plot.print_table(rows)
    plot.save(report, path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
