"""Level 2: torch's protocols of a device: generators, copies, messages, exchange with other libraries, autocast.

Each is served with the right values or refused in words. An error of torch's inside, which the vendor never wrote, is
neither.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, Row, check, expect, rows
from sglang_platform.conformance.fixtures.sent_values import same_tensor, values_on
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe, whoami
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_IN_WORDS = (RuntimeError, TypeError, ValueError, BufferError, pickle.PickleError)
_NOBODYS_WORDS = ("INTERNAL ASSERT", "Could not run '", "only available on CPU")
"""Of torch's errors that tell an operator nothing."""


def _served(what: str, ask: Callable[[], Any]) -> Any:
    """What `ask` gives; None where the device refuses in words."""
    try:
        return ask()
    except _IN_WORDS as error:
        said = str(error)
        if said and not any(one in said for one in _NOBODYS_WORDS):
            return None
        raise _unsaid(what, error) from error
    except Exception as error:
        raise _unsaid(what, error) from error


def _unsaid(what: str, error: Exception) -> CheckFailed:
    first = (str(error).splitlines() or [""])[0]
    return CheckFailed(f"{what} ends with {type(error).__name__}: {first}")


def _written(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def _in_a_state(generator: torch.Generator) -> torch.Generator:
    return torch.Generator(device=generator.device).set_state(generator.get_state())


_COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "torch.save": lambda value: _written(value, weights_only=False),
}
_OF_GENERATORS = {
    **_COPIES,
    "clone_state": lambda generator: generator.clone_state(),
    "get_state, set_state": _in_a_state,
}


_check = partial(check, level=Level.CONTRACT, needs="device")


@_check(
    cases=rows(_OF_GENERATORS),
    fix="let the device's generator keep seed, offset and state, and wait for what is queued before its state is read;"
    " where it has no offset, give torch.Generator a reduction of your own (copyreg.pickle)",
)
def generators_are_copied(subject: Subject, case: Row) -> None:
    """A copy of a generator of the device, by pickle, copy, torch.save or its state, goes on with the numbers that the
    first would give, or is refused in words."""
    first = _generator(subject)
    _numbers(first)
    second = _served(f"{case.row} of a generator", lambda: _OF_GENERATORS[case.row](first))
    if second is None:
        return
    ours, theirs = _numbers(first), _numbers(second)
    expect(
        second.device == first.device, f"{case.row} of a generator of {first.device} is on {second.device}"
    )
    expect(
        ours == theirs,
        f"{case.row} of a generator gives other numbers than the generator: {theirs}, not {ours}",
    )


def _generator(subject: Subject) -> torch.Generator:
    try:
        return torch.Generator(device=subject.device).manual_seed(11)
    except RuntimeError as error:
        raise NotApplicable(f"the device has no generators: {str(error).splitlines()[0]}") from error


def _numbers(generator: torch.Generator) -> list[float]:
    try:
        return torch.rand(4, device=generator.device, generator=generator).tolist()
    except NotImplementedError as error:
        raise NotApplicable("the device draws no random numbers") from error


_Draw = Callable[[Any, torch.Generator], Any]
_DRAWS: dict[str, _Draw] = {
    "rand": lambda device, g: torch.rand(4, device=device, generator=g),
    "randn": lambda device, g: torch.randn(4, device=device, generator=g),
    "randint": lambda device, g: torch.randint(9, (4,), device=device, generator=g),
    "randperm": lambda device, g: torch.randperm(9, device=device, generator=g),
    "multinomial": lambda device, g: torch.multinomial(torch.ones(9, device=device), 4, generator=g),
    "bernoulli": lambda device, g: torch.bernoulli(torch.full((9,), 0.5, device=device), generator=g),
    "normal_": lambda device, g: torch.zeros(4, device=device).normal_(generator=g),
    "exponential_": lambda device, g: torch.zeros(4, device=device).exponential_(generator=g),
}


@_check(
    cases=rows(_DRAWS),
    fix="compare the generator's device with the tensor's, as at::check_generator does, before a kernel draws",
)
def generators_of_other_devices_are_refused(subject: Subject, case: Row) -> None:
    """An operator of the device refuses a generator of the CPU, and one of the CPU the device's: numbers would be drawn
    that follow from no seed of the caller's."""
    if subject.device.type == "cpu":
        raise NotApplicable("the device is the CPU")
    for where, generator in ((subject.device, torch.Generator()), ("cpu", _generator(subject))):
        with contextlib.suppress(RuntimeError, TypeError, ValueError):
            _DRAWS[case.row](where, generator)
            raise CheckFailed(
                f"{case.row} on {where} takes a generator of {generator.device}, and raises nothing",
                case={"row": case.row, "device": str(where)},
            )


def _mapped(value: Any, scratch: Path) -> Any:
    file = scratch / "protocols.pt"
    torch.save(value, file)
    try:
        return torch.load(file, mmap=True)
    finally:
        file.unlink()


def _moved(value: Any) -> Any:
    """To the CPU while it is read, and back."""
    device = value[0].device
    return _written(_written(value, map_location="cpu"), map_location=device)


_OF_TENSORS: dict[str, Callable[[Any, Path], Any]] = {
    **{name: lambda value, _, copied=copied: copied(value) for name, copied in _COPIES.items()},
    "torch.load, weights_only": lambda value, _: _written(value, weights_only=True),
    "torch.load, map_location": lambda value, _: _moved(value),
    "torch.load, mmap": _mapped,
}


@_check(
    cases=rows(_OF_TENSORS),
    fix="give torch the storages of the device: rename_privateuse1_backend(), _register_device_module(), and"
    " generate_methods_for_privateuse1_backend(for_storage=True); bytes of a storage are copied both ways",
)
def tensors_are_copied_and_saved(subject: Subject, case: Row) -> None:
    """Tensors that were copied, pickled, or saved and loaded (to the CPU and back, read in place) have the device,
    type, strides and values that they had, or are refused in words."""
    values = values_on(subject.device)
    if case.row == "pickle":  # torch pickles no other types, on any device
        values = [one for one in values if one.dtype in (torch.float32, torch.bfloat16, torch.int64)]
    got = _served(f"{case.row} of tensors", lambda: _OF_TENSORS[case.row](values, subject.scratch))
    for sent, there in zip(values, got or (), strict=False):
        wrong = same_tensor(sent, there)
        expect(wrong is None, f"{case.row} of a tensor: {wrong}")


@_check(
    seconds=200,
    fix="register a reduction for the device's tensors (multiprocessing.reduction.ForkingPickler); one by value is"
    " sglang_platform.core.portable.torch.sent_storages.send_by_value(), called where the device is opened",
)
def tensors_are_sent_to_other_processes(subject: Subject) -> None:
    """Tensors and a generator that go through a queue to a spawned process with the same platform arrive as they were
    sent, or are refused in words: SGLang sends weights and multimodal inputs so."""
    told = probe(
        "sent_tensors", "it sends tensors to a process that it spawns", seconds=180, **whoami(subject)
    )
    if "raised" in told:
        raise CheckFailed(f"a process that sends tensors to another ended with: {told['raised']}")
    for name, outcome in told["rows"].items():
        refused = str(outcome.get("refused", ""))
        unsaid = outcome.get("kind") not in (
            None,
            *(kind.__name__ for kind in _IN_WORDS),
            "NotImplementedError",
        )
        expect(
            not unsaid and not any(one in refused for one in _NOBODYS_WORDS),
            f"{name}, sent to another process, ends with {outcome.get('kind')}: {refused}",
            case={"name": name},
        )
        expect(outcome.get("wrong") is None, f"{name}, sent to another process: {outcome.get('wrong')}")


def _dlpack_device(x: torch.Tensor) -> torch.Tensor:
    kind = int(x.__dlpack_device__()[0])
    expect(
        (kind == 1) == (x.device.type == "cpu"),
        f"__dlpack_device__() of a tensor on {x.device} names device type {kind}: 1 is the CPU, which others read",
    )
    return x


_EXCHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy()": lambda x: torch.from_numpy(x.numpy()),
    "numpy(force=True)": lambda x: torch.from_numpy(x.numpy(force=True)),
    "__array__": lambda x: torch.from_numpy(x.__array__()),
    "tolist()": lambda x: torch.tensor(x.tolist()),
    "__dlpack_device__": _dlpack_device,
    "from_dlpack": torch.from_dlpack,
    "from_dlpack, of a capsule": lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    "from_dlpack, to the CPU": lambda x: torch.from_dlpack(x, device="cpu"),
}


@_check(
    cases=rows(_EXCHANGES),
    fix="let the host have the values by a copy, and never the device's address as if it were the host's",
)
def tensors_are_exchanged(subject: Subject, case: Row) -> None:
    """Numpy and DLPack get the values of a tensor of the device, or are refused in words."""
    x = torch.arange(6.0).view(2, 3).to(subject.device)
    got = _served(f"{case.row} of a tensor", lambda: _EXCHANGES[case.row](x))
    if got is not None:
        expect(
            torch.equal(got.cpu().float(), x.cpu()),
            f"{case.row} of {x.cpu().tolist()} gives {got.cpu().tolist()}",
        )


_CASTS = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@_check(
    cases=rows(_CASTS),
    fix="register torch's lists of operators for the device's autocast key (KERNEL_PRIVATEUSEONE), with a fallthrough"
    " for all others, and answer get_amp_supported_dtype(); without kernels answer [] there, and torch says so",
)
def autocast_casts_or_says_so(subject: Subject, case: Row) -> None:
    """Inside `torch.autocast` a product has the type that was asked for, and its values, or torch warns or raises in
    words; afterwards it has the type of its factors again."""
    dtype, kind = _CASTS[case.row], subject.device.type
    x = torch.arange(9.0).view(3, 3).to(subject.device)

    def product() -> torch.Tensor:
        with torch.autocast(kind, dtype=dtype):
            return x @ x

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        got = _served(f"a product under autocast to {dtype}", product)
    if got is not None:
        expect(
            got.dtype == dtype or warned,
            f"under autocast to {dtype} a product comes as {got.dtype}, without a word",
        )
        wanted = (x.cpu() @ x.cpu()).float()
        expect(
            torch.allclose(got.cpu().float(), wanted, rtol=0.02),
            f"under autocast to {dtype} a product is {got.cpu().tolist()}, not {wanted.tolist()}",
        )
    after = (x @ x).dtype
    expect(after == x.dtype, f"after autocast to {dtype} products of {x.dtype} come as {after}")
