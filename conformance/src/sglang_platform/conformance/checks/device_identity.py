"""Level 2: what tells one device from another: name, uuid, generation, processor."""

from __future__ import annotations

import re
from typing import Any

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.checks.device import in_another_process
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.contract.types import CpuArchEnum

__all__: list[str] = []


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="ask the driver for it, and return it as the type that is promised",
)
def device_is_described(subject: Subject) -> None:
    """Name and uuid are texts, the name without a slash, and the uuid with more in it than names and numbers that all
    such devices have; the capability is a DeviceCapability, which has a number, or None; the processor is one of
    CpuArchEnum."""
    platform = subject.platform
    for method in ("get_device_name", "get_device_uuid"):
        text = getattr(platform, method)(0)
        expect(
            isinstance(text, str) and text.strip(),
            f"{method}(0) answers {text!r}, not a text",
            case={"method": method},
        )
    for what, text in (
        ("get_device_name(0) answers", platform.get_device_name(0)),
        ("device_name is", platform.device_name),
    ):
        expect(
            not re.search(r"[/\\\x00-\x1f]|^\s|\s$", text),
            f"{what} {text!r}: files of tuned configurations are named by it, and it has a slash, a line end or a space"
            " at its end",
            fix="leave out what no file's name may have",
        )
    _identifies(platform)
    found = platform.get_device_capability(0)
    good = found is None or (isinstance(found, tuple) and hasattr(found, "major") and hasattr(found, "minor"))
    good = good and (
        found is None or all(isinstance(one, int) and one >= 0 for one in (found.major, found.minor))
    )
    expect(
        good,
        f"get_device_capability(0) answers {found!r}",
        fix="return sglang_platform.core.DeviceCapability(major, minor), or None where the vendor numbers none",
    )
    try:
        if found is not None:
            found.to_int(), found.as_version_str()
    except ValueError as error:
        raise CheckFailed(
            f"get_device_capability(0) answers {found!r}, which has no number: {error}",
            fix="number generations with one digit after the point, as in 9.0",
        ) from error
    expect(
        getattr(platform.cpu_arch, "name", None) in CpuArchEnum.__members__,
        f"get_cpu_architecture() answers {platform.cpu_arch!r}, not a member of CpuArchEnum",
        fix="leave get_cpu_architecture() out: the contract's own asks the system",
    )


def _identifies(platform: Any) -> None:
    """Raises CheckFailed for a uuid of words that devices of this kind have in common."""
    uuid, known = platform.get_device_uuid(0), _COMMON
    for text in (
        platform.device_name,
        platform.device_type,
        platform.get_device_name(0),
        type(platform).__name__,
    ):
        known = (*known, *re.split(r"[\W_]+", text.lower()), text.lower())
    left = uuid.lower()
    for word in sorted(filter(None, known), key=len, reverse=True):
        left = left.replace(word, "")
    left = re.sub(r"[\W_]+", "", left)
    expect(
        len(left) > 2,
        f"get_device_uuid(0) answers {uuid!r}: another such device, on another machine, has the same",
        fix="build it from what the hardware reports, its serial number or UUID, or from the machine's id",
    )


_COMMON = ("device", "accelerator", "uuid", "gpu", "npu", "cpu", "tpu", "xpu", "card", "chip", "id")


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="build it from what the hardware reports, its serial number or UUID: not from id(), hash(), a counter, random "
    "numbers or the process",
)
def uuid_is_stable(subject: Subject) -> None:
    """The device's uuid is the same when it is asked again, and in another process."""
    first = subject.platform.get_device_uuid(0)
    again = subject.platform.get_device_uuid(0)
    expect(first == again, f"get_device_uuid(0) answered {first!r}, then {again!r}")
    told = in_another_process(subject, "get_device_uuid(0)")
    expect(told == repr(first), f"get_device_uuid(0) answers {first!r} here, and {told} in another process")
