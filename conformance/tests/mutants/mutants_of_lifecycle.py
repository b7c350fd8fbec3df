"""Level 2 mutants: calls of a worker's life, and answers of the device that do not follow what happens."""

from __future__ import annotations

import atexit
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform


@mutant(
    check="contract.free_memory_follows_allocations",
    defect="the free memory is that of the first call, and the KV cache is sized as if no weights were loaded",
    says="bytes less free",
)
class FreeMemoryOfTheFirstCall(ReferencePlatform):
    _first: Any = None

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        type(self)._first = self._first or super().get_available_memory(device_id)
        return self._first  # type: ignore[no-any-return]


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="without an index another device answers than for index 0",
    says="get_device_uuid()",
)
class DefaultIsTheSecondDevice(ReferencePlatform):
    def get_device_uuid(self, device_id: int = 1) -> str:
        return super().get_device_uuid(device_id)


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="a library may be defined once only, and a draft model's worker calls init_backend() again",
    says="the second init_backend()",
)
class InitialisedOnceOnly(ReferencePlatform):
    _done = False

    def init_backend(self) -> None:
        if self._done:
            raise RuntimeError("the library mychip is registered already")
        type(self)._done = True
        super().init_backend()


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="weights of linear layers are transposed in place, and an update of the weights no longer fits",
    says="changes the parameters",
)
class WeightsTransposed(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        for module in model.modules():
            if type(module).__name__ == "Linear":
                module.weight.data = module.weight.data.t().contiguous()


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="the garbage collector is switched off in every worker, and cycles of requests stay",
    says="the garbage collector's enabled",
)
class CollectorOff(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        gc.disable()


@mutant(
    check="contract.platform_is_ready_soon",
    defect="every worker waits for the driver to settle",
    says="init_backend() takes",
)
class WaitsInEveryWorker(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        time.sleep(40)


@mutant(
    check="contract.server_arguments_are_kept",
    defect="the share of memory is lowered at each call, whatever the operator named",
    says="mem_fraction_static",
)
class MemoryLoweredAtEachCall(ReferencePlatform):
    def finalize_server_args(self, server_args: Any) -> None:
        server_args.mem_fraction_static = (server_args.mem_fraction_static or 0.9) * 0.9


@mutant(
    check="contract.server_arguments_are_kept",
    defect="an argument is set by a name that the host does not have",
    says="did you mean 'page_size'",
)
class ArgumentMisspelt(ReferencePlatform):
    def apply_server_args_defaults(self, server_args: Any) -> None:
        server_args.pagesize = 16


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="the model is left in training mode, and its statistics change with every batch",
    says="training",
)
class LeftInTraining(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        model.train()


@mutant(
    check="contract.workers_open_their_own_device",
    defect="a worker opens the device of its rank in the world, which a second machine does not have",
    says="rank=65",
)
class DeviceOfTheWorldRank(ReferencePlatform):
    def initialize_device(self, rank: int, local_rank: int) -> None:
        if rank >= 8:
            raise RuntimeError(f"there is no device {rank}")


@mutant(
    check="contract.workers_open_their_own_device",
    defect="opening the device changes the type of the numbers that torch makes",
    says="torch's default dtype",
)
class DefaultTypeChanged(ReferencePlatform):
    def initialize_device(self, rank: int, local_rank: int) -> None:
        torch.set_default_dtype(torch.float64)


@mutant(
    check="contract.seeds_are_followed",
    defect="the number of the process is added to a seed",
    says="in another process",
)
class SeedOfTheProcess(ReferencePlatform):
    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        super().seed_everything(None if seed is None else seed + os.getpid())


@mutant(
    check="contract.seeds_are_followed",
    defect="a seed is cut to its low 16 bits",
    says="the same numbers",
)
class SeedOf16Bits(ReferencePlatform):
    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        super().seed_everything(None if seed is None else seed % 65536)


@mutant(
    check="contract.server_arguments_are_kept",
    defect="settling the arguments hides devices from all workers",
    says="REFERENCE_VISIBLE_DEVICES",
)
class DevicesHidden(ReferencePlatform):
    def apply_server_args_defaults(self, server_args: Any) -> None:
        os.environ["REFERENCE_VISIBLE_DEVICES"] = "0"


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="init_backend() lowers the number of files that the process may open",
    says="lowered limit",
)
class FewFilesAfterInit(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="a hook is registered on every module after each update of the weights, beside those of the updates before",
    says="hooks",
)
class HooksAddUp(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        for module in model.modules():
            module.register_forward_hook(lambda *given: None)


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="a worker makes way for other programs, and what waits for it waits with it",
    says="niceness",
)
class MakesWayForOthers(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        os.nice(5)


@mutant(
    check="contract.workers_can_end",
    defect="init_backend() starts a pool of threads whose tasks never end, and Python waits for them",
    says="does not end",
)
class TasksThatNeverEnd(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        ThreadPoolExecutor(1).submit(threading.Event().wait)


@mutant(
    check="contract.workers_can_end",
    defect="the driver's library is closed at exit, and breaks since its device is gone",
    says="status -6",
)
class BreaksAtItsEnd(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        atexit.register(os.abort)


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="what the first weights were computed to is put back after each update of the weights",
    says="of updated weights",
)
class FirstWeightsComeBack(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        for module in model.modules():
            if type(module).__name__ == "Linear":
                kept = module.__dict__.setdefault("_kept", module.weight.detach().clone())
                module.weight.data.copy_(kept)


@mutant(
    check="contract.post_load_model_keeps_the_model",
    defect="the last layer gets a weight of its own, in a layout that the device likes",
    says="parameters that were one",
)
class HeadOfItsOwn(ReferencePlatform):
    def post_load_model(self, model: Any) -> None:
        head = list(model.modules())[-1]
        head.weight = torch.nn.Parameter(head.weight.t().contiguous().t(), requires_grad=False)


@mutant(
    check="contract.free_memory_counts_what_holds_files",
    defect="free memory is what no page holds, buffers included",
    says="less free",
)
class FreeIsWhatNothingHolds(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        lines = Path("/proc/meminfo").read_text().splitlines()
        about = {
            name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)
        }
        return about["MemFree"] + about["Buffers"], super().get_available_memory(device_id)[1]
