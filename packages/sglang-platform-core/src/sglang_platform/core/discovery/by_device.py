"""`get_platform(device)`: the platform of a device, for processes that see more than one kind."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import ask, load_class
from sglang_platform.core.discovery.current import current_platform
from sglang_platform.core.discovery.instance import instantiate
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.discovery.refusals import refuse_duplicates
from sglang_platform.core.errors import ConfigurationError, PlatformError, PluginNotFound, SeveralPlatforms

if TYPE_CHECKING:
    import torch

    from sglang_platform.core.contract.srt import SRTPlatform
    from sglang_platform.core.discovery.scan import EntryPointRecord, Scan

__all__ = ["get_platform"]

_DEVICE = re.compile(r"([^\W\d]\w*)(?::\d+)?")

_found: dict[str, SRTPlatform] = {}
_scanned: Scan | None = None  # the scan that `_found` belongs to
_lock = threading.RLock()


def get_platform(device: str | torch.device) -> SRTPlatform:
    """The platform whose `device_type` is that of `device` (`"cuda"`, `"cuda:1"`): `current_platform` if it matches,
    else that of an installed plugin, which is queried now and cached. `"cpu"` is core's base platform unless a plugin
    serves it.

    Raises what accessing `current_platform` raises, ConfigurationError for an invalid device, PluginNotFound with each
    plugin's reason if none serves the device, SeveralPlatforms if two do.
    """
    read = None if device is None else _DEVICE.fullmatch(str(device))
    if read is None:
        raise ConfigurationError(
            f"{device!r} is no device", fix='name a torch device, as "cuda", "cuda:1" or "npu"'
        )
    kind = read[1]
    if current_platform.device_type == kind:
        return current_platform
    global _scanned
    with _lock:
        if _scanned is not scan.scan():
            _scanned = scan.scan()
            _found.clear()
        if kind not in _found:
            _found[kind] = _search(kind)
        return _found[kind]


def _search(kind: str) -> SRTPlatform:
    records = scan.records(SRT.group)
    refuse_duplicates(records)
    serving: list[tuple[EntryPointRecord, SRTPlatform]] = []
    reasons = []
    for record in records:
        try:
            platform, reason = _instance(record)
        except PlatformError as error:  # a broken plugin for another device must not fail this one
            platform, reason = None, error.what
        if platform is not None and platform.device_type == kind:
            serving.append((record, platform))
        if platform is not None:
            reason = f"serves {platform.device_type!r}"
        reasons.append(f"{record.origin}: {reason}")
    if len(serving) > 1:
        names = ", ".join(str(record.origin) for record, _ in serving)
        raise SeveralPlatforms(
            f"{len(serving)} platforms serve the device {kind!r}: {names}",
            why="there is no priority between platforms",
            fix="uninstall all but one: pip uninstall "
            + " or ".join(sorted({record.origin.distribution or "?" for record, _ in serving})),
        )
    if serving:
        return serving[0][1]
    base: SRTPlatform = SRT.core_base()()
    if kind == base.device_type:
        return base
    away = "mend what keeps one away, or " if reasons else ""
    raise PluginNotFound(
        f"no platform serves the device {kind!r}",
        why="; ".join(reasons) or f"no installed distribution has an entry point in {SRT.group}",
        fix=f"{away}install the plugin for {kind!r} into this environment; what is there:"
        " `sglang-platform list --explain`",
    )


def _instance(record: EntryPointRecord) -> tuple[SRTPlatform | None, str | None]:
    """An instance of the plugin's class, re-based in a host process; or None and why the plugin declined."""
    location, reason, _ = ask(record)
    if location is None:
        return None, reason
    host = SRT.host.adapter()
    bases = (SRT.core_base(),) if host is None else (SRT.core_base(), host.platform_base())
    cls = load_class(location, record.origin, lambda: bases)
    if host is not None and not issubclass(cls, host.platform_base()):
        cls = host.rebase_platform(cls, record.origin)
    made = instantiate(cls, record.origin)
    # Calling a re-based class returns the process's lazy object.
    platform: Any = object.__new__(made.platform_class)
    vars(platform).update(made.state)
    return platform, None
