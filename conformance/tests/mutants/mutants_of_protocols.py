"""Level 2 mutants: torch's protocols of a device, each broken as a device that torch does not know breaks it."""

from __future__ import annotations

import copyreg
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing.reductions as reductions
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch import sent_storages
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class _Changed(ExampleOOTPlatform):
    """The example's device, of whose protocols one is changed when it is open."""

    def __init__(self) -> None:
        super().__init__()
        self._change()

    def _change(self) -> None:
        raise NotImplementedError


@mutant(
    check="contract.generators_are_copied",
    defect="generators have no offset, and torch's own reduction asks for it",
    says="SystemError",
)
class GeneratorsWithoutAReduction(_Changed):
    def _change(self) -> None:
        copyreg.dispatch_table.pop(torch.Generator, None)


@mutant(
    check="contract.generators_are_copied",
    defect="a pickled generator keeps its seed and not where it is",
    says="other numbers",
)
class GeneratorsFromTheirSeed(_Changed):
    def _change(self) -> None:
        copyreg.pickle(torch.Generator, lambda one: (_seeded, (one.device, one.initial_seed())))


def _seeded(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


@mutant(
    check="contract.generators_of_other_devices_are_refused",
    defect="the kernels of the device draw from whatever generator they are given",
    says="takes a generator of cpu",
)
class AnyGenerator(_Changed):
    def _change(self) -> None:
        exponential = torch.Tensor.exponential_

        def exponential_(self: Any, *args: Any, generator: Any = None, **more: Any) -> Any:
            return exponential(self, *args, generator=None, **more)

        torch.Tensor.exponential_ = exponential_


@mutant(
    check="contract.tensors_are_copied_and_saved",
    defect="what is loaded for the device gets memory of the right size, and nothing is copied",
    says="it holds",
)
class LoadedWithoutContent(_Changed):
    def _change(self) -> None:
        kind = self.device_type

        def load(storage: Any, location: str) -> Any:
            if location.startswith(kind):
                return torch.UntypedStorage(storage.nbytes(), device=torch.device(location)).fill_(0)
            return None

        torch.serialization.register_package(0, lambda storage: None, load)


@mutant(
    check="contract.tensors_are_sent_to_other_processes",
    defect="nothing carries the device's memory to another process",
    says="only available on CPU",
)
class NothingIsSent(_Changed):
    def _change(self) -> None:
        sent = reductions.reduce_storage
        if sent.__module__ == sent_storages.__name__:
            (reductions.reduce_storage,) = (one.cell_contents for one in sent.__closure__)
            ForkingPickler.register(torch.UntypedStorage, reductions.reduce_storage)


@mutant(
    check="contract.tensors_are_sent_to_other_processes",
    defect="a view is sent as if it began where its storage does",
    says="it holds",
)
class SentFromTheStart(_Changed):
    def _change(self) -> None:
        def reduce(tensor: torch.Tensor) -> Any:
            rebuild, (cls, storage, (_, *rest)) = reductions.reduce_tensor(tensor)
            return rebuild, (cls, storage, (0, *rest))

        ForkingPickler.register(torch.Tensor, reduce)


@mutant(
    check="contract.tensors_are_exchanged",
    defect="__dlpack_device__() names the CPU, so that numpy takes the device's address",
    says="__dlpack_device__()",
)
class NamedAsTheCPU(_Changed):
    def _change(self) -> None:
        torch.Tensor.__dlpack_device__ = lambda self: (1, 0)


@mutant(
    check="contract.autocast_casts_or_says_so",
    defect="the device has no kernels for autocast, and hides torch's warning that it is off",
    says="without a word",
)
class SilentAutocast(ReferencePlatform):
    def __init__(self) -> None:
        super().__init__()
        torch.autocast.__enter__ = lambda self: self
        torch.autocast.__exit__ = lambda self, *error: None
