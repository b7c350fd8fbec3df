"""Level 2: what the platform answers is something that exists here: backends, bases, stubs, kernels, capabilities."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from sglang_platform.conformance.check import (
    CheckFailed,
    NotApplicable,
    NotRun,
    Row,
    check,
    expect,
    mended_by,
)
from sglang_platform.conformance.checks.factories import answer_of, backends_of, expect_known
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.contract.signatures import bound_signature, broken_calls, without_annotations
from sglang_platform.core.contract.state_kernels import STATE_KERNELS
from sglang_platform.core.installed.modules import find_module

__all__: list[str] = []

_BASES = {
    "get_full_graph_backend_cls": "sglang_platform.core.graph.full:FullGraphBackend",
    "get_graph_runner_cls": "sglang_platform.core.graph.runner:GraphRunner",
    "get_paged_allocator_cls": "sglang_platform.core.memory.paged:PagedTokenToKVPoolAllocator",
    "get_host_memory_cls": "sglang_platform.core.memory.host_memory:HostMemory",
    "get_memory_saver_cls": "sglang_platform.core.memory.memory_saver:MemorySaver",
    "get_transfer_engine_cls": "sglang_platform.core.distributed.transfer_engine:TransferEngine",
}
"""The factories and what their answers are called as: subclasses, or classes with the same methods."""

_HOST_NEEDS = ("torch", "numpy", "transformers", "sglang", "sglang_platform")
_DRAFTS = ("DFLASH",)
"""The algorithms for whose draft model the host asks for an attention backend."""

_ALGORITHMS = (*_DRAFTS, "EAGLE", "EAGLE3", "STANDALONE", "NGRAM")

_TRITON_LORA = ("triton", "csgmv")


@check(
    level=Level.CONTRACT,
    fix="derive the class from core's base of that part, or give it all methods that the base has",
)
def parts_have_their_interface(subject: Subject) -> None:
    """Each class that a factory answers with derives from core's base of that part, or has all of its methods; what it
    overrides takes every call that the base's method takes."""
    if not subject.knows_core:
        raise NotApplicable("it is about core's contract, and the platform is written on SGLang's classes")
    for name, place in _BASES.items():
        cls = answer_of(getattr(subject.platform, name), f"{name}()")
        if cls is None:
            continue
        base = resolve_name(place)
        methods = [one for one, value in vars(base).items() if callable(value) and not one.startswith("_")]
        lacks = [one for one in methods if not callable(getattr(cls, one, None))]
        expect(
            issubclass(cls, base) or not lacks,
            f"{name}() answers {cls.__module__}.{cls.__qualname__}, which is no {base.__name__} and has no"
            f" {', '.join(lacks)}",
            case={"factory": name},
        )
        _overrides_take_the_calls(cls)


def _overrides_take_the_calls(cls: type) -> None:
    for name in dir(cls):
        owners = [one for one in cls.__mro__ if name in vars(one)]
        theirs = next((one for one in owners if one.__module__.startswith("sglang_platform.core.")), None)
        own = theirs is None or theirs is owners[0]
        if name.startswith("_") or own or not callable(getattr(cls, name)):
            continue
        wanted, given = (bound_signature(vars(one)[name], one) for one in (theirs, owners[0]))
        if wanted is None or given is None:
            continue
        broken = broken_calls(wanted, given)
        expect(
            not broken,
            f"{owners[0].__module__}.{owners[0].__qualname__}.{name}{without_annotations(given)}"
            f" {', '.join(broken)}",
            case={"class": cls.__qualname__, "method": name},
            fix=f"write {name}{without_annotations(wanted)}, as {theirs.__qualname__} has it; parameters of your own"
            " come last and have defaults",
        )


def _attention_backends(subject: Subject) -> None:
    """They are built from the model runner; the default is one of them, or one of the host's own."""
    platform = subject.platform
    backends = backends_of(platform)
    expect(
        isinstance(backends, Mapping),
        f"get_attention_backends() answers {type(backends).__name__}, not a mapping",
    )
    for name, factory in backends.items():
        expect(
            isinstance(name, str) and callable(factory),
            f"get_attention_backends() has {name!r}: {factory!r}, not a name and what builds the backend",
        )
        _takes(factory, f"the attention backend {name!r}", object())
    if subject.availability is not None:
        return  # the default may go by the device
    try:
        default = platform.get_default_attention_backend()
    except NotImplementedError:
        expect(
            not platform.is_out_of_tree(),
            "get_default_attention_backend() is not implemented, and SGLang asks an out-of-tree platform for it",
            fix="return the name of an attention backend from get_default_attention_backend()",
        )
        return
    says = f"get_default_attention_backend() answers {default!r},"
    expect(isinstance(default, str) and default, f"{says} not a name")
    expect_known(subject, "attention_backend", default, says)


def _takes(function: Callable[..., Any], what: str, *arguments: Any) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise CheckFailed(
            f"{what} takes {signature}, and is called with {len(arguments)}: {error}"
        ) from error


def _lora_backend(subject: Subject) -> None:
    name = subject.platform.get_default_lora_backend()
    says = f"get_default_lora_backend() answers {name!r},"
    expect(name is None or (isinstance(name, str) and name), f"{says} not a name")
    expect(
        name not in _TRITON_LORA or subject.platform.capabilities.supports_triton,
        f"{says} which is written in Triton, and capabilities.supports_triton is False",
    )
    if name is not None:
        expect_known(subject, "lora_backend", name, says)


def _stubs(subject: Subject) -> None:
    """None hides what the host needs and has: of the standard library, torch, numpy, transformers or SGLang."""
    stubs = subject.platform.stub_modules()
    expect(isinstance(stubs, Mapping), f"stub_modules() answers {stubs!r}, not a mapping")
    for name, stub in stubs.items():
        good = isinstance(name, str) and all(part.isidentifier() for part in name.split("."))
        expect(good, f"stub_modules() has {name!r}, which is no dotted name of a module")
        module = stub is None or isinstance(stub, ModuleType)
        expect(module, f"stub_modules() has {stub!r} for {name!r}, not a module or None")
        top = name.partition(".")[0]
        hides = top in sys.stdlib_module_names or (top in _HOST_NEEDS and find_module(name) is not None)
        expect(not hides, f"stub_modules() names {name!r}, which every machine of the host has")


def _drafts(subject: Subject) -> None:
    platform = subject.platform
    if not hasattr(platform, "supports_speculative_algorithm"):
        return  # hosts before 0.5.21
    for algorithm in filter(platform.supports_speculative_algorithm, _ALGORITHMS):
        asked = f"get_default_speculative_draft_attention_backend({algorithm!r})"
        try:
            name = platform.get_default_speculative_draft_attention_backend(algorithm)
        except NotImplementedError as error:
            if algorithm not in _DRAFTS:
                continue
            raise CheckFailed(
                f"supports_speculative_algorithm({algorithm!r}) is True, and {asked} raises {error}"
            ) from error
        says = f"{asked} answers {name!r},"
        expect(isinstance(name, str) and name, f"{says} not a name")
        expect(
            platform.supports_speculative_draft_attention_backend(algorithm, name),
            f"{says} and supports_speculative_draft_attention_backend() says no to it",
        )
        expect_known(subject, "speculative_draft_attention_backend", name, says)
    expect(
        not platform.supports_speculative_algorithm("NO_SUCH_ALGORITHM"),
        "supports_speculative_algorithm('NO_SUCH_ALGORITHM') answers True",
        fix="answer True for the algorithms that you have tried, by their names",
    )
    _is_function(platform, "get_speculative_cache_locs_fn")


def _is_function(platform: Any, name: str) -> Any:
    function = getattr(platform, name, lambda: None)()
    good = function is None or callable(function)
    expect(good, f"{name}() answers {function!r}, not a function or None")
    return function


def _functions(subject: Subject) -> None:
    kernels = subject.platform.get_state_kernels()
    expect(isinstance(kernels, Mapping), f"get_state_kernels() answers {kernels!r}, not a mapping")
    for name, kernel in kernels.items():
        expect(
            name in STATE_KERNELS,
            f"get_state_kernels() has {name!r}, which nobody asks for; the names are {', '.join(STATE_KERNELS)}",
        )
        expect(callable(kernel), f"get_state_kernels() has {kernel!r} for {name!r}, not a function")
    function = _is_function(subject.platform, "get_token_bitmask_fn")
    if function is not None:
        _takes(function, "what get_token_bitmask_fn() answers", object(), object())


def _unknown_kinds(subject: Subject) -> None:
    asked = "get_kv_pool_cls(kind='no_such_kind')"
    try:
        cls = subject.platform.get_kv_pool_cls(kind="no_such_kind")
    except (ValueError, KeyError, NotImplementedError):
        return
    except Exception as error:
        raise CheckFailed(f"{asked} raises {type(error).__name__}: {error}, not ValueError") from error
    expect(cls is None, f"{asked} answers {cls!r}")


_ANSWERS: dict[str, tuple[Callable[[Subject], None], str]] = {
    "attention backends": (
        _attention_backends,
        "map names to what builds a backend from the model runner, an AttentionBackend subclass or a function"
        " (model_runner) -> backend, and name one of them in get_default_attention_backend()",
    ),
    "drafts": (
        _drafts,
        "answer get_default_speculative_draft_attention_backend(algorithm) with a backend for the draft model, and True"
        " from supports_speculative_draft_attention_backend() for it",
    ),
    "unknown kinds": (
        _unknown_kinds,
        "raise ValueError for a kind that you do not know, as contract.types.kv_pool_kind(kind) does",
    ),
    "LoRA backend": (
        _lora_backend,
        "answer with a LoRA backend that runs on the device, or None: core chooses one that needs no Triton",
    ),
    "stubs": (
        _stubs,
        'return {"module.name": None} for an empty module, or a types.ModuleType; name only what this device lacks',
    ),
    "functions": (
        _functions,
        "answer with a mapping of names of contract.state_kernels to functions that take their arguments",
    ),
}
_OF_CORE = ("LoRA backend", "stubs", "functions")


def _answers(subject: Subject, rng: random.Random) -> Iterator[Row]:
    """Those of core's contract alone for a platform that knows it; a host may ask for pools by other methods."""
    absent = () if subject.knows_core else _OF_CORE
    kinds = () if hasattr(subject.platform, "get_kv_pool_cls") else ("unknown kinds",)
    yield from (Row(name) for name in _ANSWERS if name not in (*absent, *kinds))


@check(
    level=Level.CONTRACT,
    cases=_answers,
    fix="answer with what exists here, in the form that the contract states",
)
def answers_can_be_used(subject: Subject, case: Row) -> None:
    """What a platform answers beside its parts exists here and takes the host's calls: backends of attention, of
    LoRA and of draft models, stubs, kernels of states; what nobody knows is refused."""
    judge, fix = _ANSWERS[case.row]
    with mended_by(fix):
        judge(subject)


@check(
    level=Level.CONTRACT,
    fix='declare where the list is as "package.module:NAME", and ship the module with the package',
)
def kernel_lists_exist(subject: Subject) -> None:
    """Every place in `kernels` has a list of kernel declarations."""
    places = subject.declares.kernels
    if not places:
        raise NotApplicable("no kernels are declared")
    # They are declared with torch and Triton, which a process that checks the contract alone need not have.
    from sglang_platform.conformance.kernels.load import declarations

    for place in places:
        module = place.partition(":")[0]
        try:
            declarations([place])
        except (ValueError, AttributeError, ImportError) as error:
            if isinstance(error, ImportError) and not f"{module}.".startswith(f"{error.name}."):
                raise NotRun(f"{place} needs {error.name or error}", cause="extra") from error
            raise CheckFailed(f"kernels has {place!r}: {error}", case={"place": place}) from error


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="say False for what the device does not have: the host launches its own kernels on what is promised",
)
def promised_capabilities_are_there(subject: Subject) -> None:
    """What `capabilities` promises of the host's own code can run here: a Triton kernel is compiled and launched on the
    device, PyNccl and the kernels of the hierarchical cache are for an accelerator, not for the CPU."""
    capabilities, kind = subject.platform.capabilities, subject.device.type
    for name in ("supports_pynccl", "hicache_device_kernels"):
        expect(
            not (getattr(capabilities, name, False) and kind == "cpu"),
            f"capabilities.{name} is True, and tensors of this platform are on the CPU",
            case={"capability": name},
        )
    if not getattr(capabilities, "supports_triton", False):
        return
    case = {"capability": "supports_triton"}
    try:
        from sglang_platform.conformance.fixtures.triton_probe import doubled  # triton may be absent

        got = doubled(subject.device)
    except ImportError as error:
        raise CheckFailed(f"capabilities.supports_triton is True, and {error}", case=case) from error
    except Exception as error:
        raise CheckFailed(
            f"capabilities.supports_triton is True, and a Triton kernel does not run on {kind}:"
            f" {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}",
            case=case,
        ) from error
    expect(
        got == [2.0 * number for number in range(len(got))],
        f"capabilities.supports_triton is True, and a kernel that doubles gives {got[:8]}",
        case=case,
    )
