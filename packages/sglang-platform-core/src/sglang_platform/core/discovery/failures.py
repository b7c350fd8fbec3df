"""A foreign exception turned into a PluginFailed that says where it came from and what to do."""

from __future__ import annotations

import re
import sys

from sglang_platform.core.discovery.damaged_install import missing_files_behind
from sglang_platform.core.discovery.versions import requirements
from sglang_platform.core.errors import (
    LaunchRefused,
    PlatformError,
    PluginFailed,
    PluginOrigin,
    ReentrantResolution,
    cause_chain,
    explain,
)
from sglang_platform.core.installed.files import Unread

__all__ = ["amended", "missing_module_fix", "plugin_failed"]

# Import names whose distribution has another name, as far as accelerator packages use them.
_DISTRIBUTION_OF = {
    "PIL": "pillow",
    "pynvml": "nvidia-ml-py",
    "sgl_kernel": "sgl-kernel",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}


def plugin_failed(
    what: str, origin: PluginOrigin, error: BaseException, fix: str | None = None
) -> PlatformError:
    """The error to raise `from error`. A re-entrant touch keeps its class: it explains itself."""
    if isinstance(error, ReentrantResolution):
        return type(error)(error.what, plugin=error.plugin or origin, why=error.why, fix=error.fix)
    told = error.fix if isinstance(error, PlatformError | LaunchRefused) else None
    missing = None if told else missing_files_behind(error, origin.distribution)
    if missing is not None:
        return PluginFailed(what, plugin=origin, why=f"{missing[0]}\n{explain(error)}", fix=missing[1])
    return PluginFailed(what, plugin=origin, why=explain(error), fix=told or _fix(origin, error) or fix)


def amended(error: PlatformError, alternative: str) -> PlatformError:
    """`error` with one more way out."""
    fix = f"{error.fix}; or {alternative}" if error.fix else alternative
    copy = type(error)(error.what, plugin=error.plugin, why=error.why, fix=fix)
    copy.__cause__ = error.__cause__
    return copy


def _fix(origin: PluginOrigin, error: BaseException) -> str | None:
    for link in cause_chain(error):
        if isinstance(link, ModuleNotFoundError) and link.name and not _is_of_a_loaded_package(link.name):
            return missing_module_fix(origin, link.name)
    return None


def _is_of_a_loaded_package(module: str) -> bool:
    """Whether the package is there and only the name in it is wrong: a namespace package has parts in many places."""
    top, _, within = module.partition(".")
    return bool(within) and getattr(sys.modules.get(top), "__file__", None) is not None


def missing_module_fix(origin: PluginOrigin, module: str) -> str:
    """Which package to install for a module that the plugin imports and nobody provides."""
    top = module.partition(".")[0]
    package = _DISTRIBUTION_OF.get(top, top)
    extra, requirement = _declared(origin, {_folded(top), _folded(package)})
    if extra:
        return f"the module {module!r} is missing: pip install '{origin.distribution}[{extra}]'"
    if requirement:
        return f"the module {module!r} is missing: pip install '{requirement}'"
    if top in _DISTRIBUTION_OF:
        return f"the module {module!r} is missing: pip install {package}"
    carrier = origin.distribution or "the plugin"
    return (
        f"the module {module!r} is missing: install the package that provides it (pip install {package}, if it "
        f"bears the same name); {carrier} does not declare it"
    )


def _declared(origin: PluginOrigin, names: set[str]) -> tuple[str | None, str | None]:
    """(extra, requirement) under which the plugin's distribution asks for one of `names`."""
    if origin.distribution is None:
        return None, None
    import importlib_metadata
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        lines = requirements(origin.distribution)
    except (importlib_metadata.PackageNotFoundError, Unread):
        return None, None
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if _folded(requirement.name) in names:
            extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", str(requirement.marker or ""))
            return (extra[1] if extra else None), f"{requirement.name}{requirement.specifier}"
    return None, None


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
