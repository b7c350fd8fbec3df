"""The class and instance state that the lazy platform object takes over after a decision."""

from __future__ import annotations

from typing import Any, NamedTuple

from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.refusals import plugin_failed
from sglang_platform.core.discovery.resolve import Decision
from sglang_platform.core.errors import HostError, PlatformError, PluginFailed, PluginOrigin, explain
from sglang_platform.core.host import HostAdapter

__all__ = ["PlatformInstance", "instance_for", "instantiate", "shared_with_host"]


class PlatformInstance(NamedTuple):
    """A class and the instance attributes that the lazy object takes over."""

    platform_class: type
    state: dict[str, Any]


def instance_for(decision: Decision, kind: PlatformKind, lazy_object: object) -> PlatformInstance:
    """The class and state of the decided platform in this process.

    Raises PluginFailed if the plugin's class cannot be re-based on the host or instantiated, HostError if the host
    cannot resolve its own platform, or chose another one.
    """
    host = kind.host.adapter()
    if decision.origin is None or decision.platform_class is None:
        return instantiate(kind.core_base(), None) if host is None else shared_with_host(host)
    if host is None:
        return instantiate(decision.platform_class, decision.origin)
    if issubclass(decision.platform_class, host.platform_base()):
        return _written_for_the_host(host, decision.platform_class, decision.origin, kind, lazy_object)
    return instantiate(host.rebase_platform(decision.platform_class, decision.origin), decision.origin)


def instantiate(cls: type, origin: PluginOrigin | None) -> PlatformInstance:
    """A fresh instance of `cls`, created separately so that no thread sees a half-initialised lazy object."""
    _check_layout(cls, origin)
    try:
        # `cls()` would call the metaclass of re-based classes, which returns the lazy object itself.
        platform = type.__call__(cls)
        state, device_type = vars(platform), platform.device_type
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise plugin_failed(
            f"the platform {cls.__module__}.{cls.__qualname__} could not be instantiated",
            origin or PluginOrigin(cls.__qualname__),
            error,
            fix="its __init__ takes no arguments and must not raise, nor a property device_type",
        ) from error
    _check_device_type(cls, device_type, origin)
    return PlatformInstance(cls, state)


def shared_with_host(host: HostAdapter) -> PlatformInstance:
    """The host's own platform: its class and its `__dict__`, shared, not copied."""
    return _share(_own_platform(host))


def _written_for_the_host(
    host: HostAdapter, platform_class: type, origin: PluginOrigin, kind: PlatformKind, lazy_object: object
) -> PlatformInstance:
    """For a class derived from the host's base: the host creates the object, and the lazy object shares its state."""
    theirs = _own_platform(host)
    if theirs is lazy_object:  # our adapter gave the lazy object to the host earlier
        return instantiate(platform_class, origin)
    if type(theirs) is not platform_class:
        raise HostError(
            f"the host chose {type(theirs).__module__}.{type(theirs).__qualname__}, the installed plugins "
            f"call for {platform_class.__module__}.{platform_class.__qualname__}",
            plugin=origin,
            why="the host resolved by other rules, or swallowed this plugin's failure",
            fix=f"set {kind.variable}={origin.name} and see `sglang-platform list --explain`",
        )
    return _share(theirs)


def _own_platform(host: HostAdapter) -> Any:
    try:
        return host.own_platform()
    except PlatformError:
        raise
    except Exception as error:
        raise HostError(
            f"{host.name} {host.version} could not resolve its own platform",
            why=explain(error),
            fix="see the host's own message; the installed plugins: `sglang-platform list`",
        ) from error


def _share(theirs: Any) -> PlatformInstance:
    _check_layout(type(theirs), None)
    _check_device_type(type(theirs), theirs.device_type, None)
    return PlatformInstance(type(theirs), vars(theirs))


def _check_device_type(cls: type, device_type: Any, origin: PluginOrigin | None) -> None:
    """Raises PluginFailed for a device type that an instance computes, and that torch cannot parse.

    A class attribute is checked when the class is created.
    """
    # Inside the function, as in `kind`: importing the contract takes longer than all of discovery.
    from sglang_platform.core.contract.values import value_problem

    problem = value_problem("device_type", device_type)
    if problem is not None:
        raise PluginFailed(
            f"{cls.__module__}.{cls.__qualname__} cannot be the platform's class",
            plugin=origin,
            why=f"device_type {problem}",
            fix="give the type that torch has for the device, which `torch.device` takes without an index",
        )


class _PlainObject:
    """A plain object with the memory layout of the lazy object."""


def _check_layout(cls: type, origin: PluginOrigin | None) -> None:
    """Raises PluginFailed if Python rejects assigning `cls` as the lazy object's `__class__`."""
    try:
        object.__setattr__(_PlainObject(), "__class__", cls)
    except TypeError as error:
        raise PluginFailed(
            f"{cls.__module__}.{cls.__qualname__} cannot be the platform's class",
            plugin=origin,
            why=str(error).replace(_PlainObject.__name__, "current_platform"),
            fix="derive it from plain Python classes: no __slots__, no extension type among its bases",
        ) from error
