"""Mistakes that keep a plugin from being taken at all: packaging, entry points, activation, imports. Each is alone in its
copy, and asked of the command that a user runs first."""

from __future__ import annotations

from typing import NamedTuple

from defect import Place
from installed_plugin import Edit

__all__ = ["DEFECTS", "DecisionDefect"]

_INIT = "sglang_aurora/__init__.py"
_ANSWER = 'return "sglang_aurora.platform.AuroraPlatform"'
_ENTRY = 'aurora = "sglang_aurora:activate"'
_PLATFORMS = '[project.entry-points."sglang.srt.platforms"]'
_GENERAL = '[project.entry-points."sglang.srt.plugins"]'


class DecisionDefect(NamedTuple):
    """A row. says: words of the output, the fix among them. beside: another plugin that is installed too."""

    name: str
    plugin: str
    edits: tuple[Edit, ...]
    command: tuple[str, ...]
    says: tuple[str, ...]
    where: Place | None = None
    beside: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    """What the fix sets, where it is no edit."""


_INFO, _SOURCE = ("info",), ("doctor", "--source-only")


def _info(name: str, file: str, old: str, new: str, *says: str, where: Place | None = None) -> DecisionDefect:
    return DecisionDefect(name, "aurora", (Edit(file, old, new),), _INFO, says, where)


def _source(
    name: str, file: str, old: str, new: str, *says: str, plugin: str = "aurora", where: Place | None = None
) -> DecisionDefect:
    return DecisionDefect(name, plugin, (Edit(file, old, new),), _SOURCE, says, where)


DEFECTS = (
    _info(
        "an entry point to a missing function", "pyproject.toml", _ENTRY, 'aurora = "sglang_aurora:activat"',
        "module 'sglang_aurora' has no attribute 'activat'", "correct the entry point",
    ),
    _info(
        "an entry point to a missing module", "pyproject.toml", _ENTRY, 'aurora = "sglang_aurora.activation:activate"',
        "No module named 'sglang_aurora.activation'", "correct the entry point",
    ),
    _info(
        "activation answers the class", _INIT, _ANSWER, "from .platform import AuroraPlatform\n\n    return AuroraPlatform",
        "platform plugin 'aurora' answered with", 'activate() must return "pkg.mod:Class"', "sglang_aurora/__init__.py:",
    ),
    _info(
        "activation answers a file", _INIT, _ANSWER, 'return "sglang_aurora/platform.py:AuroraPlatform"',
        "answered with the str 'sglang_aurora/platform.py:AuroraPlatform'", 'activate() must return "pkg.mod:Class"',
    ),
    _info(
        "activation answers True", _INIT, _ANSWER, "return True",
        "answered with the bool True", 'activate() must return "pkg.mod:Class", "pkg.mod.Class" or None',
    ),
    _info(
        "activation names a class with a slip", _INIT, _ANSWER, 'return "sglang_aurora.platform.AuroraPlatfrom"',
        "could not be loaded", "has no attribute", "AuroraPlatfrom", "correct sglang_aurora.platform.AuroraPlatfrom",
    ),
    _info(
        "activation names a mixin", _INIT, _ANSWER, 'return "sglang_aurora.device.AuroraDeviceMixin"',
        "sglang_aurora.device.AuroraDeviceMixin, which is not a platform class", "sglang.srt.platforms.interface.SRTPlatform",
    ),
    _info(
        "the driver's library is not there", "sglang_aurora/device.py", "import importlib.util\nimport os\n", "import importlib.util\nimport os\n\nimport libaurora_driver\n",
        "install what provides 'libaurora_driver'", where=Place("sglang_aurora/device.py", "import libaurora_driver"),
    ),
    _info(
        "a syntax error", "sglang_aurora/platform.py", "    def warm_up(self):\n", "    def warm_up(self)\n",
        "SyntaxError", where=Place("sglang_aurora/platform.py", "def warm_up(self)"),
    ),
    _info(
        "activation ends the process", _INIT, _ANSWER, "raise SystemExit('no licence')",
        "failed in activate()", "SystemExit: no licence", "to decline, activate() returns None or raises PlatformUnavailable",
        where=Place(_INIT, "raise SystemExit"),
    ),
    _info(
        "activation raises", _INIT, _ANSWER, 'return "sglang_aurora." + os.environ["AURORA_PLATFORM_MODULE"]',
        "failed in activate()", "KeyError: 'AURORA_PLATFORM_MODULE'", where=Place(_INIT, "AURORA_PLATFORM_MODULE"),
    ),
    DecisionDefect(
        "two platforms at once", "aurora", (), _INFO,
        ("aurora", "dolomite", "sglang-dolomite", "SGLANG_PLATFORM"), beside="dolomite", environment=(("SGLANG_PLATFORM", "aurora"),),
    ),
    _source(
        "fp8 in SGLang's struct", "sglang_aurora/platform.py", "PlatformCapabilities(graph_capture=True)", "PlatformCapabilities(graph_capture=True, fp8=True)",
        "SGLang 0.5.23 does not take the call PlatformCapabilities(graph_capture=True, fp8=True)", "leave out fp8", "supports_triton",
        where=Place("sglang_aurora/platform.py", "fp8=True"),
    ),
    _source(
        "stand-ins taken in silence", "sglang_aurora/compat.py", "from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform",
        "from sglang.srt.platforms.base import PlatformCapabilities, SRTPlatform",
        "SGLang 0.5.23 has no sglang.srt.platforms.base", "the import fails in silence, and the stand-ins from line", "sglang.srt.platforms.interface",
        where=Place("sglang_aurora/compat.py", "sglang.srt.platforms.base"),
    ),
    _info(
        "a platform on a stand-in", "sglang_aurora/compat.py", "from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform",
        "from sglang.srt.platforms.base import PlatformCapabilities, SRTPlatform",
        "which is not a platform class", "sglang_aurora.compat",
    ),
    _source(
        "the group of a draft", "pyproject.toml", _PLATFORMS, '[project.entry-points."sglang.platforms"]',
        "the entry-point group 'sglang.platforms' is read by nobody", "move it to 'sglang.srt.platforms'",
    ),
    _source(
        "a platform among the general plugins", "pyproject.toml", f"{_PLATFORMS}\n{_ENTRY}\n\n{_GENERAL}\n", f"{_GENERAL}\n{_ENTRY}\n",
        "the entry point 'aurora' is in sglang.srt.plugins, and its function is none for it",
        "answers 'sglang_aurora.platform.AuroraPlatform', which SGLang leaves unread there", 'move `aurora` to [project.entry-points."sglang.srt.platforms"]',
        where=Place(_INIT, "def activate"),
    ),
    _source(
        "a general plugin among the platforms", "pyproject.toml", _GENERAL, _PLATFORMS,
        "the entry point 'cobalt' is in sglang.srt.platforms, and its function is none for it", "answers nothing",
        'move `cobalt` to [project.entry-points."sglang.srt.plugins"]', plugin="cobalt", where=Place("sglang_cobalt/__init__.py", "def register_plugin"),
    ),
    _source(
        "a general plugin that wants an argument", "sglang_cobalt/__init__.py", "def register_plugin():", "def register_plugin(registry):",
        "SGLang calls register_plugin() without arguments, and it requires registry", "write it as def register_plugin()", plugin="cobalt",
        where=Place("sglang_cobalt/__init__.py", "def register_plugin"),
    ),
    _source(
        "an import from a module of 0.5.11 in a general plugin", "sglang_cobalt/memory.py",
        "from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator", "from sglang.srt.mem_cache.paged_allocator import PagedTokenToKVPoolAllocator",
        "SGLang 0.5.23 has no sglang.srt.mem_cache.paged_allocator", "sglang.srt.mem_cache.allocator.paged", plugin="cobalt",
        where=Place("sglang_cobalt/memory.py", "paged_allocator import"),
    ),
    _source(
        "a module that Python cannot read", "sglang_cobalt/scheduling.py", "    return original(self, batch, pp_proxy_tensors)\n", "    return original(self, batch, pp_proxy_tensors\n",
        "sglang_cobalt.scheduling cannot be imported", "SyntaxError", plugin="cobalt", where=Place("sglang_cobalt/scheduling.py", "return original"),
    ),
    _source(
        "a release of SGLang that is not this one", "pyproject.toml", 'dependencies = ["torch"]', 'dependencies = ["torch", "sglang<0.5.20"]',
        "sglang-aurora 1.4.0 needs sglang<0.5.20, and sglang 0.5.23 is installed", "install a matching version of sglang-aurora",
    ),
    _source(
        "a hook where arguments were derived once", "sglang_cobalt/arguments.py", "{_ARGUMENTS}.resolve_once", "{_ARGUMENTS}.__post_init__",
        "the hook on sglang.srt.server_args.ServerArgs.__post_init__ takes no effect", "in SGLang 0.5.23 that method does nothing",
        "hook sglang.srt.server_args.ServerArgs.resolve_once", "finalize_server_args", plugin="cobalt",
        where=Place("sglang_cobalt/arguments.py", "HookRegistry.register"),
    ),
    _source(
        "a slip in a decorated hook", "sglang_cobalt/scheduling.py", 'SCHEDULER + ".get_next_batch_to_run"', 'SCHEDULER + ".get_next_batch"',
        "the hook on sglang.srt.managers.scheduler.Scheduler.get_next_batch is on a name that SGLang does not have", "did you mean", "get_next_batch_to_run", plugin="cobalt",
        where=Place("sglang_cobalt/scheduling.py", '@plugin_hook(SCHEDULER +'),
    ),
)  # fmt: skip
