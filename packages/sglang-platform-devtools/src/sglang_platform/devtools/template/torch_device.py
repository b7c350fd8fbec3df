"""Whether torch takes a device type, asked of torch itself in an interpreter of its own.

torch gives a device one name per process and never takes it back, so each name needs its own. The interpreter runs this
file, which imports nothing of this project.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["asked_of_torch", "torchs_refusal"]

# Imports inside functions: the other interpreter may not have this project, and only it imports torch.

_PATIENCE = 300


@functools.cache
def torchs_refusal(device_type: str) -> str | None:
    """Why torch cannot have a device of this type, in torch's words; None where it can.

    Raises ConfigurationError if there is no torch to ask.
    """
    subject = f"whether {device_type!r} can be a torch device type"
    refusal: str | None = asked_of_torch(Path(__file__), subject, device_type)
    return refusal


def asked_of_torch(program: Path, subject: str, *arguments: str) -> Any:
    """What `program` prints last, as JSON, in an interpreter that has torch and loads no plugin of it by itself.

    Raises ConfigurationError, about `subject`, if there is no torch to ask.
    """
    from sglang_platform.core.errors import ConfigurationError
    from sglang_platform.core.installed.modules import interpreter_flags

    if find_spec("torch") is None:
        raise ConfigurationError(
            f"nobody can say {subject}",
            why="torch is not installed here, and only torch knows the names that it takes",
            fix="pip install torch, which the copy needs as well; nothing was written",
        )
    # The backend of another vendor would take the one name that torch has to give.
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, *interpreter_flags(), "-c", program.read_text(encoding="utf-8"), *arguments]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        said = f"{type(error).__name__}: {error}"
    else:
        if run.returncode == 0:
            return json.loads(run.stdout.splitlines()[-1])
        said = (run.stderr.strip().splitlines() or [f"its interpreter ended with status {run.returncode}"])[
            -1
        ]
    raise ConfigurationError(
        f"nobody can say {subject}",
        why=f"torch could not be asked: {said}",
        fix="mend the installation of torch, until `python -c 'import torch'` works; nothing was written",
    )


def _refusal(name: str) -> str | None:
    """Runs in the other interpreter: registers a device of that type, as the copy will."""
    import torch
    from torch.utils import backend_registration

    if _is_known(name):
        return "torch has a device of that type"
    if hasattr(torch, name) or find_spec(f"torch.{name}") is not None:
        return f"torch.{name} exists, and the module of the device gets that name"
    try:
        backend_registration.rename_privateuse1_backend(name)
        device = torch.device(f"{name}:0")
        if (device.type, device.index) != (name, 0):
            return f"torch reads '{name}:0' as {device}"
        torch._register_device_module(name, types.ModuleType(f"torch.{name}"))
        backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    for location in (name, f"{name}:0"):
        moved = _loaded_to(location)
        if moved != name:
            return f"torch.load takes the location {location!r} for the device {moved}"
    return None


def _is_known(name: str) -> bool:
    import torch

    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def _loaded_to(location: str) -> str | None:
    """The type of the device to which `torch.load` moves a storage of this location."""
    from torch.serialization import _package_registry

    for _, _, read in _package_registry:
        try:
            moved = read(_Storage(), location)
        except RuntimeError as error:  # a device that this machine lacks
            return f"of these words: {str(error).splitlines()[0]}"
        if moved is not None:
            return str(moved)
    return None


class _Storage:
    """A storage that answers each move with the type of the device."""

    def to(self, device: Any, **options: Any) -> str:
        return str(device.type)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: name  # mps(), hpu(), ...


if __name__ == "__main__":
    print(json.dumps(_refusal(sys.argv[1])))
