"""The registration of fused ops: a forward per op and platform.

A class names an op of SGLang (a `BaseFusedOp`, `MultiPlatformOp` before 0.5.18), so that a device can register a
forward without importing the host. The adapter uses it wherever the host chooses a forward for its class of that name.
The arguments of the ops of text models are in `ops.described`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sglang_platform.core.correction import class_of_plugin, package_of, place_of_caller
from sglang_platform.core.errors import ContractError, PluginOrigin
from sglang_platform.core.spelling import shown

__all__ = [
    "FusedOp",
    "FusedOpEntry",
    "MoEExperts",
    "RMSNorm",
    "RotaryEmbedding",
    "SiluAndMul",
    "contract_ops",
    "or_else",
]

Forward = Callable[..., Any]


class FusedOpEntry:
    """One registered forward: the op's class name and stable name, the dispatch key it serves, the function, and the
    `file:line` that registered it."""

    __slots__ = ("forward", "key", "name", "op", "op_cls", "place")

    def __init__(self, op: type[FusedOp] | str, key: str, forward: Forward, place: str = "") -> None:
        self.op_cls = op if isinstance(op, type) else None
        """None for an op that the contract does not describe."""
        self.name = op.class_name() if isinstance(op, type) else op
        self.op = (self.op_cls.op if self.op_cls is not None else "") or self.name
        self.key, self.forward, self.place = key, forward, place


class FusedOp:
    """Names an op of the host; a forward is registered for it. A subclass sets `op`, the stable name."""

    op: ClassVar[str] = ""
    host_class: ClassVar[str] = ""
    """The name of the host's class, if it differs from the name of this class."""

    _registry: ClassVar[dict[tuple[str, str], FusedOpEntry]] = {}

    @classmethod
    def class_name(cls) -> str:
        """The name of the host's class in the newest release."""
        return cls.host_class or cls.__name__

    @staticmethod
    def register_oot_forward(op_cls: type[FusedOp] | str, fn: Forward, platform_key: str) -> None:
        """Serve an op by `fn(op, *args)` on platforms whose `get_dispatch_key_name()` is `platform_key`.

        `op_cls`: a class of this contract, its stable name (`"layernorm.rms_norm"`), or the class name of any op of the
        host (`"ReLU2"`), whose `forward` then defines the arguments. The forward also serves the op's subclasses in the
        host that compute the same (`Llama3RotaryEmbedding` by `"RotaryEmbedding"`), unless they have their own.

        `fn` receives the op itself first (its weights and constants); in the host that is the host's op object. For a
        call that it does not support it returns NotImplemented, and the original forward runs. A single new tensor that
        it answers has no gaps: models view it in other shapes (`self.norm(x).view(-1, self.hidden_size)`, SGLang 0.5.23
        srt/models/qwen3_vl.py:358), and quantizers assert it (kernels/ops/quantization/int8_kernel.py:71). Registering
        another function for the same pair replaces the first. Raises TypeError for any other `op_cls`. A name that the
        host's release does not have is warned of when a worker starts, with the nearest name.
        """
        if isinstance(op_cls, str) and op_cls:
            op_cls = contract_ops().get(op_cls, op_cls)
        elif not (isinstance(op_cls, type) and issubclass(op_cls, FusedOp)):
            raise TypeError(
                f"register_oot_forward needs a FusedOp subclass or the name of an op, got {shown(op_cls)}"
            )
        entry = FusedOpEntry(op_cls, platform_key, fn, place_of_caller())
        if not callable(fn):
            raise TypeError(f"register_oot_forward needs a function for {entry.name!r}, got {shown(fn)}")
        if not isinstance(platform_key, str) or not platform_key:
            raise TypeError(
                f"register_oot_forward needs the dispatch key for {entry.name!r}, a text, got {shown(platform_key)}"
            )
        FusedOp._registry[entry.name, platform_key] = entry

    @staticmethod
    def registered(platform_key: str) -> list[FusedOpEntry]:
        """The forwards registered for one dispatch key, in order of registration."""
        return [entry for (_, key), entry in FusedOp._registry.items() if key == platform_key]

    @staticmethod
    def refuse_other_keys(platform: Any, origin: PluginOrigin | None) -> None:
        """Raises ContractError if the package of the platform registers ops under other keys than the platform's, and
        none under that. Called after `init_backend()`."""
        cls, key = class_of_plugin(type(platform)), platform.get_dispatch_key_name()
        if cls is None or FusedOp.registered(key):
            return
        package = package_of(cls.__module__)
        others = [one for one in FusedOp._registry.values() if package_of(one.forward.__module__) == package]
        if others:
            names = ", ".join(sorted({one.name for one in others}))
            raise ContractError(
                f"no forward of {cls.__qualname__} for {names} is ever called",
                plugin=origin,
                why=f"get_dispatch_key_name() answers {key!r}, the key given is {others[0].key!r} ({others[0].place})",
                fix="give the platform's self.get_dispatch_key_name() to register_oot_forward()",
            )


def contract_ops() -> dict[str, type[FusedOp]]:
    """The ops that the contract describes, by stable name and by class name."""
    ours = [cls for cls in FusedOp.__subclasses__() if cls.__module__.startswith(__package__)]
    return {name: cls for cls in ours for name in (cls.op, cls.class_name())}


def or_else(forward: Forward, otherwise: Forward) -> Forward:
    """A callable that runs `forward`, and `otherwise` if that returns NotImplemented."""

    def served(*args: Any, **kwargs: Any) -> Any:
        answer = forward(*args, **kwargs)
        return otherwise(*args, **kwargs) if answer is NotImplemented else answer

    return served


class RMSNorm(FusedOp):
    """Root-mean-square normalisation (Zhang and Sennrich, 2019), optionally after adding a residual.

    `fn(op, x, residual=None, post_residual_addition=None, ...)`: x [.., H]; returns the normalised x, with a residual
    the pair (normalised, new residual). `op` has `weight` [H], `variance_epsilon`, and the variants below.
    """

    op = "layernorm.rms_norm"

    variance_size_override: int | None = None
    """Columns of which the variance is taken; None: all."""
    override_orig_dtype: Any = None
    """The type of the result; None: the type of x."""
    fp32_residual: bool = False
    """Whether the residual is kept in float32."""
    cast_x_before_out_mul: bool = False
    """Whether x is rounded to its type before it is multiplied by the weight."""


class SiluAndMul(FusedOp):
    """`fn(op, x)`: x [.., 2 I] -> silu(x[.., :I]) * x[.., I:]."""

    op = "activation.silu_and_mul"


class RotaryEmbedding(FusedOp):
    """Rotary position embedding (Su et al., 2021). `fn(op, positions, query, key, ...)` -> (query, key).

    `op` has `cos_sin_cache` [positions, rotary_dim], `head_size`, `rotary_dim`, `is_neox_style`. `offsets` [T] are
    added to the positions. With `fused_set_kv_buffer_arg` the model stores nothing itself: the forward stores the
    rotated keys and the values at that location, or returns NotImplemented.
    """

    op = "rotary.rotary_embedding"


class MoEExperts(FusedOp):
    """The experts of an unquantised mixture-of-experts layer.

    `fn(op, layer, hidden_states, topk_weights, topk_ids, config)`: hidden_states [T, H], topk_* [T, K], `layer` with
    `w13_weight` [E, 2 I, H] and `w2_weight` [E, H, I] -> [T, H]. Expert id -1 is on another rank and adds nothing.
    Biases, and settings of `config` beyond SwiGLU (activation, gate, limits, one result per expert), are computed or
    answered with NotImplemented.
    """

    op = "moe.experts"
    host_class = "UnquantizedFusedMoEMethod"
