"""Come to the platform as a worker of the host does, and make the calls of a worker's life, in their order.

Given: `name`, `location`, `host`; `folder` to be in; `words` of SGLang's source of arguments; `preload`: modules of the
host, imported before the calls; `ends`: the status to end with when all is told, in order and not at once. Told:
`arrival`, the seconds until there is a platform, beside `floor_seconds` (`left_behind.FLOOR`); `arguments`
(`server_arguments.py`), the files `written` and the `variables` changed then; `worker`: what `initialize_device()`
answered and changed in a worker of a second machine; `changes` by group (`traces.py`) after the first `init_backend()`,
its `seconds`, what it `printed` and what both calls `answered`, `raised`, `again` (fused ops that a second call
registered otherwise); `imported`: modules of the host that these calls are the first to import; `operations`: what each
operation of the device changes; `drawn`: the random numbers after a seed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from sglang_platform.conformance.probes.left_behind import FLOOR, Recorder, captured, undisturbed
from sglang_platform.conformance.probes.processes import look, name_the_platform
from sglang_platform.conformance.probes.server_arguments import tried
from sglang_platform.conformance.probes.traces import TRACES, changes, read_all

__all__ = ["SEED", "drawn_numbers", "drawn_on", "operations"]

# Imports inside functions: core comes after the platform, as in a process of the host (`processes.py`).

SEED = 5
_SECOND_MACHINE = {"rank": 65, "local_rank": 0}


def main() -> None:
    given = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _as_at_first(given["folder"])
    name_the_platform(given)
    answers.write(json.dumps(_told(given), default=str) + "\n")
    answers.close()
    os.write(given["tells"], b".")
    sys.exit(given["ends"])


def _as_at_first(folder: str) -> None:
    """Put back what a process inherits of one in which the platform was initialised already."""
    os.chdir(folder)
    os.umask(0o022)
    for one in signal.Signals:
        ignored = signal.getsignal(one) is signal.SIG_IGN
        if ignored and one not in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python itself has them
            signal.signal(one, signal.SIG_DFL)


def _told(given: dict[str, Any]) -> dict[str, Any]:
    import torch  # noqa: F401 - a worker has it

    started = undisturbed()
    for name in FLOOR:
        importlib.import_module(name)
    told: dict[str, Any] = {"floor_seconds": undisturbed() - started}
    recorder = Recorder()
    import sglang_platform.core.plugins  # noqa: F401 - what the host and core take is not the platform's

    started = undisturbed()
    look(given)
    told["arrival"] = undisturbed() - started
    platform = _platform(given["host"])
    if given["host"] == "none":
        recorder.listening = True
        own = _own(platform)
        variables = dict(os.environ)
        told["arguments"] = tried(platform, own, set(given["words"]))
        now = dict(os.environ)
        told["variables"] = [one for one in {*variables, *now} if variables.get(one) != now.get(one)]
        recorder.listening = False
        told["written"] = recorder.written
    for name in given["preload"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    known = set(sys.modules)
    if hasattr(platform, "initialize_device"):
        told["worker"] = _worker(platform)
    _initialised(platform, told)
    told["imported"] = sorted(name for name in set(sys.modules) - known if name.startswith("sglang."))
    if "raised" not in told:
        told["operations"] = {
            call: [one for group in _changed_by(operation).values() for one in group]
            for call, operation in operations(platform).items()
        }
        platform.seed_everything(SEED)
        told["drawn"] = drawn_numbers(platform.device_type)
    return told


def drawn_numbers(kind: str) -> dict[str, list[float]]:
    """The next numbers of each source, those of devices of this kind among them."""
    import torch

    found = {
        "random": [random.random() for _ in range(4)],
        "torch on the CPU": torch.rand(4, device="cpu").tolist(),
    }
    with contextlib.suppress(ImportError):
        import numpy

        found["numpy"] = [float(number) for number in numpy.random.rand(4)]
    on_device = drawn_on(kind)
    return {**found, f"torch on {kind}": on_device} if on_device is not None else found


def drawn_on(device: Any) -> list[float] | None:
    """The next numbers of a device; None on a CPU, and where it draws none."""
    import torch

    if torch.device(device).type == "cpu":
        return None
    with contextlib.suppress(NotImplementedError):  # torch's word for an operator that a device does not have
        return torch.empty(4, device=device).uniform_().tolist()
    return None


def _worker(platform: Any) -> dict[str, Any]:
    groups = {trace.group for trace in TRACES}
    before = read_all(groups)
    try:
        answered = repr(platform.initialize_device(**_SECOND_MACHINE))
    except Exception as error:  # noqa: BLE001 - told to the check
        return {"raised": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    found = changes(before, read_all(groups))
    import torch

    current = torch.empty(1, device=platform.device_type).device.index
    changed = [one for group in found.values() for one in group]
    return {"answered": answered, "changes": changed, "current": current}


def _initialised(platform: Any, told: dict[str, Any]) -> None:
    groups = {trace.group for trace in TRACES}
    before = read_all(groups)
    try:
        with captured(told, 1):
            started = undisturbed()
            told["answered"] = [repr(platform.init_backend())]
            told["seconds"] = undisturbed() - started
        told["changes"] = changes(before, read_all(groups))
        first = _ops(platform)
        told["call"] = "the second"
        told["answered"].append(repr(platform.init_backend()))
        told["again"] = sorted(set(_ops(platform)) ^ set(first))
    except BaseException as error:  # noqa: BLE001 - told to the check
        told["raised"] = f"{type(error).__name__}: {error}"
        told["trace"] = traceback.format_exc()


def _own(platform: Any) -> dict[str, Any]:
    """What an operator may name of what the platform serves; `page_size`: the largest and the smallest."""
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        found["attention_backend"] = platform.get_default_attention_backend()
    with contextlib.suppress(Exception):
        sizes = platform.supported_page_sizes
        found["page_size"] = list(dict.fromkeys((max(sizes), min(sizes))))
    return found


def operations(platform: Any) -> dict[str, Callable[[], Any]]:
    """The calls of the contract that a host makes at any time."""

    def entered(context: Any) -> None:
        with context:
            pass

    def asked(name: str, *arguments: Any) -> Callable[[], Any]:
        return lambda: getattr(platform, name)(*arguments)

    device = platform.get_device(0)
    plain = (
        "get_device_name",
        "get_device_uuid",
        "get_device_capability",
        "get_device_total_memory",
        "get_available_memory",
        "get_current_memory_usage",
        "empty_cache",
        "synchronize",
        "is_pin_memory_available",
        "get_torch_distributed_backend_str",
        "get_communicator_class",
    )
    return {
        "get_device(0)": asked("get_device", 0),
        "get_device(None)": asked("get_device", None),
        f"set_device({device!r})": asked("set_device", device),
        **{f"{name}()": asked(name) for name in plain},
        "inference_mode()": lambda: entered(platform.inference_mode()),
        "reindex_device_id(0)": lambda: entered(platform.reindex_device_id(0)),
        "seed_everything(None)": asked("seed_everything", None),
        f"seed_everything({SEED})": asked("seed_everything", SEED),
        "verify_quantization('no-such-method')": asked("verify_quantization", "no-such-method"),
    }


def _changed_by(operation: Callable[[], Any]) -> dict[str, list[str]]:
    """What differs after the first call: of torch and the process; what may be set up at first is read at a second."""
    at_once = read_all(("torch", "process"))
    _quietly(operation)
    found = changes(at_once, read_all(("torch", "process")))
    later = read_all(("logging", "functions"))
    _quietly(operation)
    return {**found, **changes(later, read_all(("logging", "functions")))}


def _quietly(operation: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception):  # other checks tell what it must answer
        operation()


def _platform(host: str) -> Any:
    if host == "sglang":
        from sglang_platform.conformance.host.current import current_platform as platform_of_host

        return platform_of_host()
    from sglang_platform.core.discovery.current import current_platform

    return current_platform


def _ops(platform: Any) -> list[str]:
    from sglang_platform.core.ops.fused_op import FusedOp

    return [f"{one.op} of {one.key}" for one in FusedOp.registered(platform.get_dispatch_key_name())]


if __name__ == "__main__":
    main()
