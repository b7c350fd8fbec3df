"""The platform under test, which every check is given: who it is, what it declares, its device and its parts.

Checks ask the subject and nothing else. So the same check runs on core's contract alone (`--host none`) and inside a
process of SGLang (`--host sglang`), where the parts are re-based, or are SGLang's own subclasses. What differs between
the two is in `subject.parts`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.declarations import Declarations, declarations_of
from sglang_platform.conformance.parts import Parts, parts_for
from sglang_platform.conformance.plugin import CheckedPlugin, DeviceAbsent
from sglang_platform.conformance.unanswered import Blocked
from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.ops.fused_op import FusedOp

if TYPE_CHECKING:
    import torch

    from sglang_platform.conformance.fixtures.pool_fixture import PoolFixture
    from sglang_platform.conformance.served_shape import ServedShape

__all__ = ["PlatformRefused", "Subject"]


class PlatformRefused(Exception):
    """The platform object could not be made; `contract.platform_is_created` reports why."""


class Subject(CheckedPlugin):
    """One platform in this process. Nothing of it is imported before `platform` or a part is asked for.

    host: "none" or "sglang". written: the vendor's `conformance.toml`, parsed. seed: that of the check in progress.
    scratch: a folder for what the suite writes. thorough: more cases and larger ones are wanted. models: files of
    models' configurations (`--model`). starts: False where it is known that the platform cannot be made.
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
        thorough: bool = False,
        models: Sequence[str] = (),
        starts: bool = True,
    ) -> None:
        super().__init__(name, location)
        self.host = host
        self.starts = starts
        self.written = dict(written or {})
        self._seed = seed
        self.seed_was_read = False
        """Whether the check draws anything: see `tiers`."""

        self.scratch = scratch or Path(os.environ.get("TMPDIR", "/tmp"))
        self.thorough = thorough
        self.model_files = tuple(models)
        self._refused: BaseException | None = None
        self.broken: dict[str, str] = {}
        """Parts, or globs over them, that were found wrong, and the check that tells it."""

        self.only_call: int | None = None
        """The call of each case that is made, where it is not all: one that failed, made again alone."""

        self.begin()

    def begin(self) -> None:
        """A case begins."""
        self.blocked: Blocked | None = None
        self.call = 0
        """The number of the call that a case makes, where it makes several."""
        self.built: Callable[..., Any] | None = None
        """The part that it was given last, a class or a function: a wrong answer is this part's."""

    def stands_on(self, part: str) -> None:
        """Raises Blocked where an earlier check found this part wrong. It is kept: a check may catch what a part
        raises."""
        told = next((check for broken, check in self.broken.items() if fnmatchcase(part, broken)), None)
        if told is not None:
            self.blocked = Blocked(f"{part} fails: see {told}")
            raise self.blocked

    def makes(self, call: int) -> bool:
        """Whether the case makes its call of this number, which comes now."""
        self.call = call
        return self.only_call in (None, call)

    @property
    def seed(self) -> int:
        """Of the check in progress."""
        self.seed_was_read = True
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._seed = seed

    def rng(self) -> random.Random:
        """A generator seeded for this check; the same numbers each time it is asked for."""
        return random.Random(self.seed)

    def torch_rng(self) -> torch.Generator:
        """The same for torch, on the CPU."""
        import torch

        return torch.Generator().manual_seed(self.seed)

    # The platform object

    @cached_property
    def parts(self) -> Parts:
        """How the platform and its parts are built in this process."""
        return parts_for(self.host, self, self.scratch)

    @property
    def platform(self) -> Any:
        """The process's platform object. Raises PlatformRefused where it cannot be made.

        Where the device is absent it is made all the same, on `--host none`, from the class that the plugin's source
        names: what it declares can be checked, what needs the device cannot.
        """
        if self._refused is None:
            try:
                return self.parts.platform
            except (PlatformError, SystemExit, DeviceAbsent) as error:
                self._refused = error
        raise PlatformRefused(str(self._refused)) from self._refused

    @property
    def knows_core(self) -> bool:
        """Whether it is on core's contract, not written on SGLang's classes alone."""
        return isinstance(self.platform, DeviceMixin)

    @cached_property
    def declares(self) -> Declarations:
        """What it says it can do."""
        written = self.written.get("declares", {})
        return declarations_of(self.platform, written, declares_itself=self.knows_core)

    @property
    def models(self) -> tuple[ServedShape, ...]:
        """The vendor's own models, whose shapes are checked beside the suite's. Raises ConfigurationError for a file
        that is none."""
        return tuple(shape for _, shape in self.shapes_by_file)

    @cached_property
    def shapes_by_file(self) -> tuple[tuple[str, ServedShape], ...]:
        """(file, shape) of each."""
        # Shapes are of torch's side of the suite, and a process that checks metadata alone needs no torch.
        from sglang_platform.conformance.fixtures.model_config import shapes_of

        return tuple((path, shape) for path in self.model_files for shape in shapes_of(Path(path)))

    # Its device

    @property
    def device(self) -> torch.device:
        """Where its tensors live."""
        return self.parts.device

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

    # Its parts, as far as they are built alike in every host

    def fixture(self, kind: str) -> PoolFixture:
        """What the suite knows of KV pools of this kind."""
        # Fixtures are of torch's side of the suite, and a process that checks metadata alone needs no torch.
        from sglang_platform.conformance.fixtures.pool_kinds import fixture_of

        return fixture_of(kind, self.written.get("pool_fixtures", {}))

    def pool(self, kind: str, **keywords: Any) -> Any:
        """A KV pool built with exactly the host's keywords. Raises LookupError where the platform brings none."""
        self.stands_on(f"{kind} pool")
        cls = self.platform.get_kv_pool_cls(kind=kind)
        if cls is None:
            raise LookupError(f"{self.name} brings no KV pool of kind {kind}")
        self.built = cls
        return cls(**self.pool_keywords(kind, **keywords))

    def pool_keywords(self, kind: str, **keywords: Any) -> dict[str, Any]:
        """The keywords of `pool`. Those that are not given have small values: size 32, page_size 1, dtype the first
        declared (a torch dtype or its name), layer_num 2, enable_memory_saver False, start_layer 0, end_layer
        start_layer + layer_num (not included), and the small row of its kind."""
        import torch

        dtype = keywords.pop("dtype", None) or self.declares.kv_dtypes[0]
        fixture = self.fixture(kind)
        wanted = {
            "size": 32,
            "page_size": 1,
            "dtype": getattr(torch, dtype) if isinstance(dtype, str) else dtype,
            "layer_num": 2,
            "device": self.parts.device_argument,
            "enable_memory_saver": False,
            "start_layer": 0,
            **fixture.small,
            **keywords,
        }
        wanted.setdefault("end_layer", wanted["start_layer"] + wanted["layer_num"])
        return fixture.completed(wanted)

    def allocator(self, size: int, page_size: int, **more: Any) -> Any:
        """See `Parts.allocator`."""
        self.stands_on("paged allocator")
        allocator = self.parts.allocator(size, page_size, **more)
        self.built = type(allocator)
        return allocator

    def attention_backend(self, pool: Any, table: Any, *, name: str | None = None, **runner: Any) -> Any:
        """An attention backend over `pool` and `table`. `runner` are further attributes of the model runner."""
        self.stands_on("attention backend")
        factory = self.parts.attention_factory(name)
        if factory is None:
            raise LookupError(f"{self.name} brings no attention backend")
        self.built = factory
        backend = factory(self.parts.model_runner(pool, table, **runner))
        self.built = type(backend)
        return backend

    def graph_runner(
        self, model: Any, backend: Any, pool: Any, table: Any, batch_sizes: Sequence[int]
    ) -> Any:
        """The platform's decode graph runner over `model.forward(input_ids, positions, forward_batch)`, captured for
        `batch_sizes`. On `--host none` only: in SGLang the engine checks drive it."""
        self.stands_on("graph runner")
        runner = self.parts.model_runner(
            pool, table, model=model, attn_backend=backend, graph_batch_sizes=list(batch_sizes)
        )
        self.built = self.platform.get_graph_runner_cls()
        return self.platform.get_graph_runner_cls()(runner)

    def fused_ops(self) -> list[Any]:
        """What the platform registered for its dispatch key: `core.ops.fused_op.FusedOpEntry` (op class, key, forward).
        Empty for a platform that is not on core's contract. Raises ContractError where all have another key."""
        self.parts.init_backend()
        FusedOp.refuse_other_keys(self.platform, None)
        return FusedOp.registered(self.platform.get_dispatch_key_name())
