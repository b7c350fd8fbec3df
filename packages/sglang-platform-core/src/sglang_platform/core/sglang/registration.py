"""How the adapter registers its hooks: as required or as optional.

When a release of SGLang renames a function, a hook on it cannot be applied. Three functions say what happens then:

    required   the device could not be served, or its answers would be wrong: the launch is refused
    soft       a repair, a count or a message is lost: one warning says which, and the platform serves
    only_for   an optional feature is lost: a launch that uses it is refused by name, and any other is served

`HookRegistry.collecting()` lists all hooks without an engine.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from sglang_platform.core.errors import HostError, LaunchRefused
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.sglang.versions import NEWEST, OLDEST, facts

__all__ = [
    "Feature",
    "LaunchSettings",
    "argument",
    "check_launch",
    "forget",
    "is_lost",
    "losing_fields",
    "only_for",
    "required",
    "soft",
]  # fmt: skip

_TOLD_VARIABLE = "SGLANG_PLATFORM_WARNED_OF"
"""The warnings that parent processes have logged already, so that one launch warns once."""

_logger = logging.getLogger(__name__)


class LaunchSettings(NamedTuple):
    """SGLang's server arguments and model config of this launch; None while they are not known yet."""

    arguments: Any = None
    model_config: Any = None


class Feature(NamedTuple):
    """An optional feature of SGLang; `name` is the operator's word for it, such as an argument."""

    name: str
    is_used: Callable[[LaunchSettings], bool]


class _Lost(NamedTuple):
    feature: Feature
    target: str
    why: str


_lost: dict[str, str] = {}
"""By target of an optional hook that cannot be applied, the reason."""
_features: list[_Lost] = []
_told: set[str] = set()
_launch: LaunchSettings | None = None


def argument(field: str) -> Feature:
    """The feature that a server argument enables."""

    def is_given(launch: LaunchSettings) -> bool:
        return launch.arguments is not None and bool(getattr(launch.arguments, field))

    return Feature(f"--{field.replace('_', '-')}", is_given)


def required(target: str, hook: Callable[..., Any], type: HookType, *, without: str, order: int = 0) -> None:
    """Register a hook without which the device cannot be served correctly. `without`: what would happen."""
    HookRegistry.register(target, hook, type, order=order, without=without)


def soft(target: str, hook: Callable[..., Any], type: HookType, *, without: str) -> None:
    """Register a hook that may be missing, with one warning. `without`: the consequence, in the operator's words."""
    lose = partial(_lose, target, hook, without)
    HookRegistry.register(target, hook, type, required=False, without=without, on_failure=lose)


def only_for(feature: Feature, target: str, hook: Callable[..., Any], type: HookType) -> None:
    """Register a hook of an optional feature: without it, a launch that uses the feature is refused."""
    without = f"{feature.name} is refused"
    lose = partial(_lose_feature, feature, target)
    HookRegistry.register(target, hook, type, required=False, without=without, on_failure=lose)


def is_lost(target: str) -> bool:
    """Whether this process knows that a soft hook on the target cannot be applied."""
    return target in _lost


def check_launch(launch: LaunchSettings) -> None:
    """Raise LaunchRefused if the launch uses a lost feature: now, or later when a feature in use is lost."""
    global _launch
    _launch = launch
    for feature in dict.fromkeys(lost.feature for lost in _features):
        with losing_fields(
            check_launch, without=f"{feature.name} is not refused, and may fail where it is used"
        ):
            if feature.is_used(launch):
                raise _refused(feature)


def forget() -> None:
    """Reset the record of lost hooks and features. For tests."""
    global _launch
    _launch = None
    for kept in (_lost, _features, _told):
        kept.clear()
    os.environ.pop(_TOLD_VARIABLE, None)


@contextmanager
def losing_fields(hook: Callable[..., Any], *, without: str) -> Iterator[None]:
    """Guard a block in which a soft hook reads fields of SGLang's objects: a missing field ends it with one warning."""
    try:
        yield
    except (AttributeError, HostError) as error:
        why = str(error).partition("\n")[0]
        _warn(why, hook, without, why)


def _lose(target: str, hook: Callable[..., Any], without: str, why: str) -> None:
    _lost[target] = why
    _warn(target, hook, without, f"{target}: {why}")


def _warn(place: str, hook: Callable[..., Any], without: str, why: str) -> None:
    name = hook.__module__.partition(".core.sglang.")[2].replace(".", "/")
    if _is_first(f"{name}:{place}"):
        _logger.warning(
            "On SGLang %s a hook of %s cannot do its work: %s. The platform serves. why: %s",
            facts().version, name, without, why,
        )  # fmt: skip


def _lose_feature(feature: Feature, target: str, why: str) -> None:
    _lost[target] = why
    _features.append(_Lost(feature, target, why))
    _logger.info("On SGLang %s %s is refused: %s (%s)", facts().version, feature.name, why, target)
    if _launch is not None:
        check_launch(_launch)


def _refused(feature: Feature) -> LaunchRefused:
    causes = [f"{lost.target}: {lost.why}" for lost in _features if lost.feature.name == feature.name]
    return LaunchRefused(
        f"{feature.name} is not served on SGLang {facts().version}: hooks that carry it cannot be applied",
        why="\n".join(dict.fromkeys(causes)),
        fix=f"serve without it, or use SGLang {OLDEST} to {NEWEST}, or a newer sglang-platform-core",
    )


def _is_first(loss: str) -> bool:
    """Whether no process of this launch has warned of a loss yet."""
    # Check the name: a spawned process does not know its parent yet while it unpickles its target, which loads plugins.
    if multiprocessing.current_process().name != "MainProcess":
        _told.update(os.environ.get(_TOLD_VARIABLE, "").splitlines())
    if loss in _told:
        return False
    _told.add(loss)
    os.environ[_TOLD_VARIABLE] = "\n".join(sorted(_told))
    return True
