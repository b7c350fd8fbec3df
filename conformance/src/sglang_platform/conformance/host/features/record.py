"""What a feature of SGLang is to the suite: how the engine is started for it, and what proves that it is served.

    LAUNCH = EngineLaunch("adapters", {"enable_lora": True, "lora_paths": ...})

    @feature(launch=LAUNCH, group="LoRA", title="two adapters in one batch", fix="...")
    def lora_two_adapters(run: Running) -> None:
        \"\"\"Requests of two adapters and of none, in one batch, give what each adapter's merged weights give.\"\"\"
        expect(run.ask(prompts, 16, lora_path=...) == ..., "...")

Each record becomes the check `features.<function name>` and a row of `docs/features.md`. A feature ends in one of three
ways on any platform: served, refused before launch (RefusedBeforeLaunch, raised for it where the launch is refused in
words), or answered with an error that leaves the engine serving. A dead engine or a wrong token is a failure.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from sglang_platform.conformance.host.features.launch import EngineLaunch, RefusedBeforeLaunch
from sglang_platform.conformance.host.features.running import Running

__all__ = ["EngineLaunch", "FeatureRecord", "RefusedBeforeLaunch", "all_features", "feature"]


@dataclass(frozen=True)
class FeatureRecord:
    """One feature; made by the decorator `feature`."""

    name: str
    group: str
    title: str
    launch: EngineLaunch | None
    """None: the function starts what it needs, several processes for example."""

    since: str
    """The first release of SGLang that has the feature."""

    before: str
    """What earlier releases do instead, as the end of "SGLang 0.5.11 ..."."""

    fix: str
    seconds: float
    function: Callable[[Running], None]

    @property
    def proves(self) -> str:
        return " ".join((self.function.__doc__ or "").split())


_registry: dict[str, FeatureRecord] = {}


def feature(
    *,
    group: str,
    title: str,
    launch: EngineLaunch | None,
    fix: str,
    since: str = "0.5.11",
    before: str = "does not have it",
    seconds: float = 400,
) -> Callable[[Callable[[Running], None]], Callable[[Running], None]]:
    """Register `fn(run)` as the proof of a feature; its docstring says what it proves.

    group, title: the row of the page, as an operator looks for it. seconds: the limit, the engine's start included.
    """

    def register(function: Callable[[Running], None]) -> Callable[[Running], None]:
        name = function.__name__
        if not function.__doc__:
            raise ValueError(f"the feature {name} has no docstring: it must say what it proves")
        known = _registry.get(name)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"two features are named {name}")
        _registry[name] = FeatureRecord(name, group, title, launch, since, before, fix, seconds, function)
        return function

    return register


def all_features() -> list[FeatureRecord]:
    """Every feature, those that share an engine one after the other."""
    package = importlib.import_module(__package__)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"{__package__}.{module.name}")
    order = {
        launch: place for place, launch in enumerate(dict.fromkeys(f.launch for f in _registry.values()))
    }
    return sorted(_registry.values(), key=lambda one: order[one.launch])
