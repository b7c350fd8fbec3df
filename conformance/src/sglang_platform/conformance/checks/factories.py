"""Level 2: each factory answers a class, None, or NotImplementedError with a reason, and what is declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, check, expect, mended_by
from sglang_platform.conformance.host_names import known_names, names_like
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.contract.pool_kinds import KV_POOL_KINDS
from sglang_platform.core.ops.fused_op import FusedOp

__all__ = ["answer_of", "backends_of", "expect_known"]

_FACTORIES: dict[str, tuple[Any, ...]] = {
    "get_paged_allocator_cls": (),
    "get_graph_runner_cls": (),
    "get_full_graph_backend_cls": (),
    "get_piecewise_backend_cls": (),
    "get_quantization_config": ("fp8",),
    "get_speculative_worker_cls": ("EAGLE",),
    "get_speculative_graph_runner_cls": ("EAGLE", "draft_decode"),
    "get_communicator_class": (),
}
"""The factories that answer with a class, and arguments to ask them with. KV pools are asked for each kind."""


def answer_of(ask: Callable[[], Any], call: str) -> type | None:
    """A factory's answer; None also where it refuses with a reason. Raises CheckFailed on everything else."""
    try:
        answer = ask()
    except NotImplementedError as refusal:
        expect(
            str(refusal).strip(),
            f"{call} raises NotImplementedError without a reason",
            fix='say why: raise NotImplementedError("this device has no ...")',
        )
        return None
    except ValueError:
        return None  # how get_quantization_config refuses a method
    if answer is None or isinstance(answer, type):
        return answer
    kind = "an instance of" if not callable(answer) else "a"
    shown = f"{kind} {type(answer).__name__}" if not isinstance(answer, str) else f"the text {answer!r}"
    raise CheckFailed(
        f"{call} answers {shown}, and the host wants a class", fix="return the class itself, not called"
    )


@check(
    level=Level.CONTRACT,
    fix="return a class, None for the host's own, or raise NotImplementedError with the reason",
)
def factories_answer_with_classes(subject: Subject) -> None:
    """Every factory answers with a class, with None, or with NotImplementedError and its reason; the same each time."""
    platform = subject.platform
    asked = {
        f"get_kv_pool_cls(kind={kind!r})": _ask(platform, "get_kv_pool_cls", kind=kind)
        for kind in KV_POOL_KINDS
    }
    for name, arguments in _FACTORIES.items():
        call = f"{name}({', '.join(map(repr, arguments))})"
        if hasattr(platform, name):
            asked[call] = _ask(platform, name, *arguments)
    for call, ask in asked.items():
        first, again = answer_of(ask, call), answer_of(ask, call)
        expect(
            first is again,
            f"{call} answers {_name(first)}, and another class of that name when asked again",
            case={"factory": call},
            fix="define the class once, at the top of a module, and return it: the host compares classes",
        )


def _ask(platform: Any, name: str, *arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: getattr(platform, name)(*arguments, **keywords)


def _name(cls: type | None) -> str:
    return "None" if cls is None else f"{cls.__module__}.{cls.__qualname__}"


@check(
    level=Level.CONTRACT,
    fix="answer with the class from get_kv_pool_cls(kind=...), or take the kind out of supported_kv_kinds",
)
def kv_kinds_are_served(subject: Subject) -> None:
    """A kind that is declared has a pool on the base class of that kind; one that is not is refused: None, or
    NotImplementedError with the reason."""
    declared = subject.declares.kv_kinds
    for kind in dict.fromkeys((*declared, *KV_POOL_KINDS)):
        call, case = f"get_kv_pool_cls(kind={kind!r})", {"kind": kind}
        cls = answer_of(_ask(subject.platform, "get_kv_pool_cls", kind=kind), call)
        expect(
            cls is None or kind in declared,
            f"{kind!r} is not in supported_kv_kinds, and {call} answers {_name(cls)}",
            case=case,
            fix="return None for a kind that you do not serve; where you do, add it to supported_kv_kinds so that it is"
            " tested",
        )
        if kind not in declared:
            continue
        if cls is None:
            raise CheckFailed(f"{kind!r} is in supported_kv_kinds, and {call} has no class", case=case)
        base = subject.parts.pool_base(kind)
        expect(
            issubclass(cls, base),
            f"{call} answers {_name(cls)}, which is no {_name(base)}",
            case=case,
            fix=f"derive the pool from {_name(base)}",
        )


@check(level=Level.CONTRACT, fix="let the capability and the factory say the same")
def graph_capture_has_a_runner(subject: Subject) -> None:
    """`capabilities.graph_capture` and `get_graph_runner_cls()` say the same, and so do the piecewise ones."""
    platform = subject.platform
    if not platform.is_out_of_tree():
        return  # the host has runners of its own for the devices that it knows
    pairs = {"graph_capture": "get_graph_runner_cls", "piecewise_graph": "get_piecewise_backend_cls"}
    for capability, factory in pairs.items():
        claimed = bool(getattr(platform.capabilities, capability, False))
        cls = answer_of(_ask(platform, factory), f"{factory}()")
        expect(
            claimed == (cls is not None),
            f"capabilities.{capability} is {claimed}, and {factory}() answers {_name(cls)}",
            case={"capability": capability},
            fix=f"answer with the class from {factory}(), and say {capability}=True in PlatformCapabilities, or answer"
            f" None, and say {capability}=False: SGLang stops a launch without what it was promised, and never asks for"
            " what it was not",
        )


def backends_of(platform: Any) -> Mapping[str, Any]:
    """The platform's own attention backends; none of a platform on SGLang's classes, which has no such method."""
    found: Mapping[str, Any] = (
        platform.get_attention_backends() if hasattr(platform, "get_attention_backends") else {}
    )
    return found


def expect_known(subject: Subject, argument: str, name: Any, says: str) -> None:
    """That `name` is one of the host's for `argument`, or one that the platform brings or registers with it."""
    own: Collection[str] = ()
    if argument.endswith("attention_backend") and argument != "mm_attention_backend":
        argument, own = "attention_backend", backends_of(subject.platform)
    elif argument == "quantization":
        own = subject.platform.supported_quantization
    known = known_names(argument)
    if not known or name in known or name in own:
        return
    try:
        subject.parts.init_backend()  # a plugin may register its own there
    except Exception as error:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice") from error
    expect(
        name in known_names(argument),
        f"{says} which is neither SGLang's nor the platform's{names_like(name, known.union(own))}",
        fix="write SGLang's name, or register yours with SGLang in init_backend",
    )


@check(level=Level.CONTRACT, fix="return the text or flag that the contract promises")
def choices_are_in_form(subject: Subject) -> None:
    """Capabilities, the same each time they are read, dispatch key, compile backend and the speculative answers have
    the types of the contract."""
    platform = subject.platform
    first, again = platform.capabilities, platform.capabilities
    with mended_by("return PlatformCapabilities(...) with True or False for each field"):
        known = type(first).__name__ == "PlatformCapabilities"
        expect(known, f"capabilities is {first!r}, not PlatformCapabilities")
        expect(first == again, f"capabilities is {first!r}, and when it is read again {again!r}")
    for name in ("get_dispatch_key_name", "get_compile_backend"):
        text = getattr(platform, name)()
        expect(
            isinstance(text, str) and text, f"{name}() answers {text!r}, not a name", case={"method": name}
        )
    for name, arguments in (
        ("supports_speculative_algorithm", ("EAGLE",)),
        ("supports_speculative_draft_attention_backend", ("EAGLE", "triton")),
        ("support_mamba_cache_extra_buffer", ()),
    ):
        if hasattr(platform, name):
            answer = getattr(platform, name)(*arguments)
            expect(
                isinstance(answer, bool),
                f"{name}() answers {answer!r}, not True or False",
                case={"method": name},
            )


@check(
    level=Level.CONTRACT,
    needs="device",
    hosts=("none",),
    fix="register the op under the key that get_dispatch_key_name() answers: "
    "FusedOp.register_oot_forward(op, forward, self.get_dispatch_key_name())",
)
def registered_ops_are_dispatched(subject: Subject) -> None:
    """The fused ops that `init_backend()` registers are under the platform's own dispatch key."""
    subject.parts.init_backend()
    key = subject.platform.get_dispatch_key_name()
    others = {entry.key: entry.place for entry in FusedOp._registry.values() if entry.key != key}
    where = ", ".join(f"{other} ({others[other]})" for other in sorted(others))
    expect(
        not others,
        f"get_dispatch_key_name() answers {key!r}, and init_backend() registers ops under {where}: they are never "
        "called",
    )
