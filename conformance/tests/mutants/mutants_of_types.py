"""Level 3 and 4 mutants: types of the cache that the platform does not declare, taken and served wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import ReferencePlatform


class _FewTypes(ReferencePlatform):
    supported_kv_dtypes = ("float32", "bfloat16")


@mutant(
    check="memory.undeclared_dtype_is_refused",
    defect="float16 is neither declared nor refused, and what is stored is rounded as bfloat16 is",
    says="does not store it",
)
class HalfRoundedAsBfloat(_FewTypes):
    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        base: Any = super().get_kv_pool_cls(kind=kind)

        class Pool(base):  # type: ignore[misc]
            def _write(self, buffer: torch.Tensor, loc: torch.Tensor, rows: torch.Tensor) -> None:
                if buffer.dtype == torch.float16:
                    rows = rows.bfloat16().half()
                super()._write(buffer, loc, rows)

        return Pool


@mutant(
    check="memory.undeclared_dtype_is_refused",
    defect="a pool of whole numbers is built, and keeps keys and values without what is behind the point",
    says="nothing says what its rows hold",
)
class WholeNumbersTaken(_FewTypes):
    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        base: Any = super().get_kv_pool_cls(kind=kind)
        return type("Pool", (base,), {"supported_dtypes": (*base.supported_dtypes, torch.int8)})


class _HalfReadAsBfloat(ReferenceAttention):
    def _forward(self, q: torch.Tensor, *given: Any) -> torch.Tensor:
        if q.dtype != torch.float16:
            return super()._forward(q, *given)
        return super()._forward(q.view(torch.bfloat16), *given).half()


@mutant(
    check="kernels.undeclared_feature_is_refused",
    defect="queries of float16, which is neither declared nor refused, are read as if they were bfloat16",
    says="wrong by",
)
class HalfReadAsBfloat(_FewTypes):
    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {self.get_default_attention_backend(): _HalfReadAsBfloat}
