"""The platform under test: who it is, what it declares, and its parts, built as the host builds them.

Checks ask the subject and nothing else, so the same check runs on core's contract alone (`--host none`) and inside a
process of SGLang (`--host sglang`), where the parts are re-based, or are SGLang's own subclasses.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.declarations import Declarations, declarations_of
from sglang_platform.conformance.parts import Parts, parts_for
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import PlatformError

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceAbsent", "PlatformRefused", "Subject"]


class PlatformRefused(Exception):
    """The platform object could not be made; `packaging.platform_is_created` reports why."""


class DeviceAbsent(Exception):
    """The plugin says that its device is not on this machine; the text is its reason."""


class Subject:
    """One platform in this process. Nothing of it is imported before `platform` or a part is asked for.

    name: the entry point's name, or that of a development platform. location: `pkg.mod:Class` of a development
    platform. host: "none" or "sglang". written: the vendor's `conformance.toml`, parsed. seed: that of the check.
    """

    def __init__(
        self,
        name: str,
        host: str = "none",
        *,
        location: str | None = None,
        written: Mapping[str, Any] | None = None,
        seed: int = 0,
        scratch: Path | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.location = location
        self.written = dict(written or {})
        self.seed = seed
        self.scratch = scratch or Path(os.environ.get("TMPDIR", "/tmp"))
        self._refused: BaseException | None = None

    def rng(self) -> random.Random:
        """A generator seeded for this check; the same numbers each time it is asked for."""
        return random.Random(self.seed)

    def torch_rng(self) -> torch.Generator:
        """The same for torch, on the CPU."""
        import torch

        return torch.Generator().manual_seed(self.seed)

    # Who it is, from metadata

    @cached_property
    def records(self) -> tuple[EntryPointRecord, ...]:
        """The platform's entry points; more than one where two distributions register the name, none where it is a
        development platform or is not installed."""
        return tuple(record for record in scan.records(PLATFORM_GROUP) if record.name == self.name)

    @property
    def record(self) -> EntryPointRecord | None:
        return self.records[0] if self.records and self.location is None else None

    @property
    def distribution(self) -> str | None:
        """The distribution that carries it."""
        return self.record.origin.distribution if self.record else None

    @cached_property
    def module(self) -> str | None:
        """The module of its entry point, or of a development platform's class."""
        text = self.location or (self.record.value if self.record else "")
        return text.partition("[")[0].partition(":")[0].strip() or None

    @cached_property
    def sources(self) -> list[tuple[str, Path]]:
        """(module, file) of all its Python files, found without importing them."""
        from sglang_platform.core.source.opening import package_files

        return package_files(self.module) if self.module else []

    # What it is

    @cached_property
    def availability(self) -> str | None:
        """None where the plugin says that its device is here, else its reason. Raises what discovery raises."""
        from sglang_platform.core.discovery.asking import ask

        if self.location is not None or self.record is None:
            return None
        with _named(self.name):
            answer = ask(self.record)
        return None if answer.location else answer.reason

    @cached_property
    def parts(self) -> Parts:
        """How parts are built in this process."""
        return parts_for(self)

    @property
    def platform(self) -> Any:
        """The process's platform object. Raises PlatformRefused where it cannot be made.

        Where the device is absent it is made all the same, on `--host none`, from the class that the plugin's source
        names: what it declares can be checked, what needs the device cannot.
        """
        if self._refused is not None:
            raise PlatformRefused(str(self._refused)) from self._refused
        try:
            return self._platform
        except (PlatformError, SystemExit, DeviceAbsent) as error:
            self._refused = error
            raise PlatformRefused(str(error)) from error

    @cached_property
    def _platform(self) -> Any:
        return self.parts.platform()

    @cached_property
    def declares(self) -> Declarations:
        """What it says it can do."""
        platform = self.platform
        from sglang_platform.core.contract.device import DeviceMixin

        return declarations_of(
            platform, self.written.get("declares", {}), declares_itself=isinstance(platform, DeviceMixin)
        )

    @property
    def knows_core(self) -> bool:
        """Whether it is on core's contract, not written on SGLang's classes alone."""
        from sglang_platform.core.contract.device import DeviceMixin

        return isinstance(self.platform, DeviceMixin)

    # The device

    @cached_property
    def device(self) -> torch.device:
        """Where its tensors live."""
        import torch

        return torch.device(self.platform.get_device(0))

    def device_count(self) -> int:
        """How many devices torch sees of its type; 1 on the CPU."""
        import torch

        module = getattr(torch, self.device.type, None)
        return int(module.device_count()) if hasattr(module, "device_count") else 1

    def synchronize(self) -> None:
        """Wait for the device, without the platform's own help."""
        import torch

        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    # Its parts

    def pool_class(self, kind: str) -> type | None:
        """The answer of `get_kv_pool_cls(kind=kind)`."""
        return self.platform.get_kv_pool_cls(kind=kind)  # type: ignore[no-any-return]

    def pool(self, kind: str, **keywords: Any) -> Any:
        """A KV pool built with exactly the host's keywords. Those that are not given have small values:

        mha: size 32, page_size 1, dtype the first declared, head_num 2, head_dim 16, layer_num 2, device,
        enable_memory_saver False, start_layer 0, end_layer start_layer + layer_num (not included); mla:
        kv_lora_rank 16, qk_rope_head_dim 8 in place of the heads; dsa: index_head_dim 128 and kv_cache_dim besides.
        `dtype` may be a torch dtype or its name.
        """
        cls = self.pool_class(kind)
        if cls is None:
            raise LookupError(f"{self.name} brings no KV pool of kind {kind}")
        return cls(**self.pool_keywords(kind, **keywords))

    def pool_keywords(self, kind: str, **keywords: Any) -> dict[str, Any]:
        """The keywords of `pool`, completed."""
        import torch

        dtype = keywords.pop("dtype", None) or self.declares.kv_dtypes[0]
        wanted: dict[str, Any] = {
            "size": 32,
            "page_size": 1,
            "dtype": getattr(torch, dtype) if isinstance(dtype, str) else dtype,
            "layer_num": 2,
            "device": self.device_argument,
            "enable_memory_saver": False,
            "start_layer": 0,
        }
        wanted |= {"head_num": 2, "head_dim": 16} if kind == "mha" else _LATENT
        wanted |= keywords
        if kind == "dsa":
            rows = wanted["kv_lora_rank"] + wanted["qk_rope_head_dim"]
            wanted = {"index_head_dim": 128, "kv_cache_dim": rows, **wanted}
        wanted.setdefault("end_layer", wanted["start_layer"] + wanted["layer_num"])
        return wanted

    @property
    def device_argument(self) -> str:
        """What the host passes as `device`: the platform's device type."""
        return str(self.platform.device_type)

    def req_to_token_pool(self, size: int, max_context_len: int) -> Any:
        """The request table of this host: `req_to_token` int32 [size + 1, max_context_len] on the device."""
        return self.parts.request_table(size, max_context_len)

    def allocator_class(self) -> type | None:
        """The answer of `get_paged_allocator_cls()`."""
        return self.platform.get_paged_allocator_cls()  # type: ignore[no-any-return]

    def allocator(
        self, size: int, page_size: int, *, pool: Any = None, need_sort: bool = False, dtype: Any = None
    ) -> Any:
        """The platform's paged allocator over `size` slots; the host's slot allocator where page_size is 1."""
        return self.parts.allocator(size, page_size, pool, need_sort, dtype)

    def attention_factory(self, name: str | None = None) -> Callable[[Any], Any] | None:
        """What builds its attention backend `name` (by default its default one) from a model runner; None where the
        platform brings none."""
        return self.parts.attention_factory(name)

    def attention_backend(self, pool: Any, table: Any, *, name: str | None = None, **runner: Any) -> Any:
        """An attention backend over `pool` and `table`. `runner` are further attributes of the model runner."""
        factory = self.attention_factory(name)
        if factory is None:
            raise LookupError(f"{self.name} brings no attention backend")
        return factory(self.model_runner(pool, table, **runner))

    def model_runner(self, pool: Any, table: Any, **more: Any) -> Any:
        """The attributes of a model runner that parts may read: `token_to_kv_pool`, `req_to_token_pool`, `device`,
        `dtype`, `page_size`, `model_config`, `server_args`, and `more`."""
        return self.parts.model_runner(pool, table, more)

    def attention_layer(self, **fields: Any) -> Any:
        """One attention layer's constants, as this host writes them: fields of core's `AttentionLayer`."""
        return self.parts.attention_layer(fields)

    def forward_batch(self, mode: str, **fields: Any) -> Any:
        """One batch, as this host writes it. `mode`: "decode", "extend", "mixed" or "idle"; fields of
        `core.attention.batch.ForwardBatch`, whose tensors are moved to the device."""
        return self.parts.forward_batch(mode, fields)

    def graph_runner(
        self, model: Any, backend: Any, pool: Any, table: Any, batch_sizes: Sequence[int]
    ) -> Any:
        """The platform's decode graph runner over `model.forward(input_ids, positions, forward_batch)`, captured for
        `batch_sizes`. On `--host none` only: in SGLang the engine checks drive it."""
        runner = self.model_runner(
            pool, table, model=model, attn_backend=backend, graph_batch_sizes=list(batch_sizes)
        )
        return self.platform.get_graph_runner_cls()(runner)

    def init_backend(self) -> None:
        """`init_backend()` of the platform, once in this process."""
        self._initialised  # noqa: B018 - asked for its effect

    @cached_property
    def _initialised(self) -> bool:
        self.platform.init_backend()
        return True

    def fused_ops(self) -> list[Any]:
        """What the platform registered for its dispatch key: `core.ops.fused_op.FusedOpEntry` (op class, key, forward).
        Empty for a platform that is not on core's contract."""
        from sglang_platform.core.ops.fused_op import FusedOp

        self.init_backend()
        return FusedOp.registered(self.platform.get_dispatch_key_name())


_LATENT = {"kv_lora_rank": 16, "qk_rope_head_dim": 8}


class _named:
    """While a plugin is asked, it is the one that is named, as an operator would name it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.before = os.environ.get("SGLANG_PLATFORM")
        os.environ["SGLANG_PLATFORM"] = self.name

    def __exit__(self, *error: object) -> None:
        if self.before is None:
            os.environ.pop("SGLANG_PLATFORM", None)
        else:
            os.environ["SGLANG_PLATFORM"] = self.before
