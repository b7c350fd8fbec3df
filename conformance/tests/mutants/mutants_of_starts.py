"""Level 2 mutants: what a worker's start leaves set for everybody, and seeds and arguments at their edges."""

from __future__ import annotations

import os
from typing import Any

import numpy
import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="init_backend() sends the whole process past the operator's proxies",
    says="no_proxy",
)
class PastTheProxies(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        os.environ["no_proxy"] = "*"


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="init_backend() puts its own folder in the place of those that the operator's libraries are looked for in",
    says="the operator's variable PATH",
)
class OwnPathOnly(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        os.environ["PATH"] = "/usr/local/mychip/bin"


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="init_backend() makes numpy raise where it would warn",
    says="numpy's errors by",
)
class NumpyRaises(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        numpy.seterr(divide="raise")


@mutant(
    check="contract.init_backend_can_be_called_twice",
    defect="init_backend() makes the processor flush denormal numbers to zero",
    says="denormals",
)
class DenormalsFlushed(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        torch.set_flush_denormal(True)


@mutant(
    check="contract.seeds_are_followed",
    defect="a seed of 0 is taken for none",
    says="seed_everything(0), and again",
)
class ZeroIsNoSeed(ReferencePlatform):
    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        super().seed_everything(seed or None)


@mutant(
    check="contract.server_arguments_are_kept",
    defect="a small page size that the operator chose is raised to the one that is quick",
    says="page_size was 1, is 16",
)
class PagesMadeLarger(ReferencePlatform):
    def apply_server_args_defaults(self, server_args: Any) -> None:
        server_args.page_size = max(server_args.page_size or 0, 16)
