"""Level 2: the calls that the host makes once in a worker's life: what they answer, and what they leave behind."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.device import whoami
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import Ending, until_it_ends
from sglang_platform.conformance.probes.lifecycle import SEED, drawn_numbers
from sglang_platform.conformance.probes.traces import SETTINGS
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.source.search import find_module
from sglang_platform.core.spelling import nearest

__all__: list[str] = []

_SECONDS = 10.0
_TIMES = 12.0
_ATTEMPTS = 3
_SECONDS_TO_END = 20
_ENDS = 7
"""A status with which nothing else ends."""
_PROCESSORS = "the process's processors"
"""Those near its device may be a worker's."""
_HIDES = re.compile("VISIBLE|AFFINITY_MASK")
"""In the names of variables that hide devices from a process."""


def _told(subject: Subject, attempt: int = 0) -> dict[str, Any]:
    return _lived(subject, attempt)[0]


def _lived(subject: Subject, attempt: int = 0) -> tuple[dict[str, Any], Ending]:
    """What the process told, and how it ended."""
    who = whoami(subject)
    asked = who["name"], who["location"], who["host"], str(subject.scratch), attempt
    lived = _probed(*asked)
    hosts = tuple(lived[0].get("imported", ()))
    return _probed(*asked, hosts) if hosts and lived[0].get("changes") else lived


@cache
def _probed(
    name: str, location: str | None, host: str, folder: str, attempt: int, preload: tuple[str, ...] = ()
) -> tuple[dict[str, Any], Ending]:
    """`preload`: modules of the host that the platform imports: what those set up is the host's own."""
    what = "it comes to its platform, makes the calls of a worker's start, and asks the device"
    who = {"name": name, "location": location, "host": host}
    given = {**who, "folder": folder, "words": sorted(_words()), "preload": preload, "ends": _ENDS}
    return until_it_ends("lifecycle", what, seconds=180, within=_SECONDS_TO_END, **given)


@cache
def _words() -> frozenset[str]:
    """Every word in the source of SGLang's arguments; none where it is not installed."""
    found = find_module("sglang.srt.server_args")
    if found is None or found.origin is None:
        return frozenset()
    source = Path(found.origin)
    texts = [source, *sorted(source.parent.glob("arg_groups/**/*.py"))]
    return frozenset(
        word for text in texts for word in re.findall(r"\b[a-z]\w+", text.read_text("utf-8", "replace"))
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    fix="register and load in init_backend(), set no defaults of the process, and do nothing a second time: a worker"
    " with a draft model calls it twice",
)
def init_backend_can_be_called_twice(subject: Subject) -> None:
    """In a fresh worker `init_backend()` answers None, prints nothing to standard output, leaves the defaults of torch
    and numpy, the root logger, signals, random numbers, garbage collection, child processes, the start method, how the
    process is scheduled and variables that the operator set or that are for all programs as they were, and a second
    call changes nothing."""
    told = _told(subject)
    if "raised" in told:
        raise CheckFailed(
            f"{told.get('call', 'the first')} init_backend() raised {told['raised']}\n{told['trace']}"
        )
    expect(
        told["answered"] == ["None", "None"],
        f"init_backend() answered {' and '.join(told['answered'])}, and must answer None",
    )
    found = [one for group in told["changes"].values() for one in group if one.startswith(SETTINGS)]
    expect(not found, f"init_backend() leaves traces: {'; '.join(found)}")
    printed = told["printed"].strip()
    expect(
        not printed,
        f"init_backend() prints to standard output: {printed[:300]!r}",
        fix="log with the logging module: what the host answers on standard output is read by programs",
    )
    again = told["again"]
    expect(not again, f"the second init_backend() registers other ops than the first: {', '.join(again)}")


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    fix="open the device of local_rank, which counts on this machine; rank counts the workers of all machines. Set no"
    " defaults of the process: the host sets them",
)
def workers_open_their_own_device(subject: Subject) -> None:
    """In a fresh worker of a second machine, rank 64 with local rank 0, `initialize_device()` answers None, and leaves
    torch's defaults and threads, the root logger, signals, random numbers and the start method as they were."""
    worker = _told(subject).get("worker")
    if worker is None:
        raise NotApplicable("initialize_device() is core's, and the platform is written on SGLang's classes")
    if "raised" in worker:
        raise CheckFailed(
            f"initialize_device(rank=64, local_rank=0) raises {worker['raised']}\n{worker['trace']}"
        )
    expect(worker["answered"] == "None", f"initialize_device() answers {worker['answered']}, not None")
    settings = [one for one in SETTINGS if one != _PROCESSORS]
    found = [one for one in worker["changes"] if one.startswith(tuple(settings))]
    expect(not found, f"initialize_device() leaves traces: {'; '.join(found)}")


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    fix="seed with the number that is given and nothing else: no process, rank or time in it",
)
def seeds_are_alike_in_every_process(subject: Subject) -> None:
    """After `seed_everything(n)` another process draws the same numbers of Python, numpy and torch: ranks that differ
    sample other tokens."""
    import torch

    told = _told(subject)
    if "drawn" not in told:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
    states = random.getstate(), torch.random.get_rng_state()
    try:
        here = drawn_numbers(subject.platform)
    finally:
        random.setstate(states[0])
        torch.random.set_rng_state(states[1])
    for source, numbers in here.items():
        expect(
            told["drawn"][source] == numbers,
            f"after seed_everything({SEED}) {source} gives {numbers[0]:.6g} here and {told['drawn'][source][0]:.6g} in"
            " another process",
            case={"source": source},
        )


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=600,
    hosts=("none",),
    fix="build and tune when the package is installed, or keep what was built; do not wait or retry: every worker of"
    " every server does it",
)
def platform_is_ready_soon(subject: Subject) -> None:
    """Coming to the platform (its modules, its class, its object), beside torch, and `init_backend()` take no more than
    10 seconds each, or twelve times as long as some hundred modules of the standard library (the best of three)."""
    what = {"arrival": "coming to the platform", "seconds": "init_backend()"}
    shortest = dict.fromkeys(what, float("inf"))
    limit = 0.0
    for attempt in range(_ATTEMPTS):
        told = _told(subject, attempt)
        limit = max(limit, _SECONDS, _TIMES * told["floor_seconds"])
        shortest = {name: min(seconds, told.get(name, 0.0)) for name, seconds in shortest.items()}
        if max(shortest.values()) <= limit:
            return
    for name, seconds in shortest.items():
        expect(
            seconds <= limit,
            f"{what[name]} takes {seconds:.3g} s, each time; as long as an import of ordinary size {_TIMES:g} times is"
            f" {limit:.3g} s here",
            case={"call": what[name]},
        )


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=600,
    fix="start threads as daemons, and close what is open in a function of atexit that is quick and does not end the"
    " process itself",
)
def workers_can_end(subject: Subject) -> None:
    """A process that made the calls of a worker's start, and asked the device, ends within 20 seconds of `sys.exit()`,
    with the status that it names: no thread, child or function of atexit holds it, and nothing breaks on the way."""
    for attempt in range(_ATTEMPTS):
        _, ending = _lived(subject, attempt)
        if ending.status is not None:
            break
    expect(
        ending.status is not None,
        f"a worker does not end within {_SECONDS_TO_END} s of sys.exit({_ENDS}), each time",
    )
    expect(
        ending.status == _ENDS,
        f"a worker ends with status {ending.status} after sys.exit({_ENDS})\n{ending.said}",
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    fix="answer, or do what the name says, and nothing else: no defaults of torch, no seeds, variables and loggers",
)
def device_operations_leave_the_process_alone(subject: Subject) -> None:
    """Each operation of the device leaves torch's defaults, variables, folders, signal handlers, loggers, warnings,
    functions of others and, but for a seed, random numbers as they were."""
    told = _told(subject)
    if "operations" not in told:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
    for call, found in told["operations"].items():
        seeds = call.startswith("seed_everything(") and "None" not in call
        left = [one for one in found if not (seeds and one.startswith("the state of the random numbers"))]
        expect(not left, f"{call} leaves traces: {'; '.join(left)}", case={"call": call})


@check(
    level=Level.CONTRACT,
    needs="device",
    hosts=("none",),
    seconds=200,
    fix="assign, in place, what the device needs and the operator left open (`if server_args.page_size is None: ...`);"
    " refuse in words what it cannot serve; write no files",
)
def server_arguments_are_kept(subject: Subject) -> None:
    """`apply_server_args_defaults()` and `finalize_server_args()` answer None, assign arguments that the host has, keep
    what the operator named (sizes, seeds, the platform's own attention backend and page size), change nothing more when
    they are called again, write no files, and hide no devices from the workers."""
    told = _told(subject)
    for name, one in told["arguments"].items():
        method, _, how = name.partition("/")
        if one["asked"]:
            raise NotApplicable(f"{method}() calls server_args.{one['asked'][0]}(), which only SGLang has")
        case = {"method": method, "arguments": how}
        if "raised" in one:
            raise CheckFailed(f"{method}() raises {one['raised']}\n{one['trace']}", case=case)
        expect(one["answered"] == "None", f"{method}() answers {one['answered']}, not None", case=case)
        _all_known(method, one["unknown"], case)
        _same(f"{method}() changes what the operator named", one["lost"], case)
        _same(f"{method}(), called again, changes more", one["again"], case)
    written = list(dict.fromkeys(told["written"]))
    expect(not written, f"settling the arguments writes {', '.join(written[:6])}")
    hidden = sorted(name for name in told["variables"] if _HIDES.search(name))
    expect(
        not hidden,
        f"settling the arguments changes {', '.join(hidden)}: every worker inherits it, and does not see other devices",
        fix="leave the variables that hide devices to reindex_device_id(), which puts them back",
    )


def _all_known(method: str, unknown: Sequence[str], case: dict[str, Any]) -> None:
    from sglang_platform.conformance.probes.server_arguments import KNOWN  # lists of the installed host

    words = _words()
    for name in dict.fromkeys(unknown):
        meant = nearest(name, KNOWN)
        if words or meant:
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise CheckFailed(f"{method}() assigns {name!r}, which the host does not have{hint}", case=case)


def _same(what: str, changed: dict[str, list[str]], case: dict[str, Any]) -> None:
    told = "; ".join(f"{name} was {was}, is {now}" for name, (was, now) in changed.items())
    expect(not changed, f"{what}: {told}", case=case)


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="change the layout or the class of what you know, in place, and keep names, shapes and dtypes of parameters:"
    " updates of the weights find them by name, and a draft model comes after the model",
)
def post_load_model_keeps_the_model(subject: Subject) -> None:
    """`post_load_model(model)` answers None, and a model of plain torch layers has the same parameters, buffers and
    modes afterwards, those that were one are one, and it computes the same, also when it is called for a second model
    and again for the first, which got other weights by their names meanwhile and has no more hooks then."""
    import torch

    subject.parts.init_backend()
    models = [_model(torch, subject, seed) for seed in range(2)]
    plain = [_model(torch, subject, seed) for seed in range(2)]
    tokens = torch.arange(8, device=subject.device)
    hooks: dict[int, int] = {}
    for turn, which in enumerate((0, 1, 0, 0)):
        model = models[which]
        before = _described(model)
        if which in hooks:
            for one in (model, plain[which]):
                _update(torch, subject, one, turn)
        with torch.no_grad():
            expected = plain[which](tokens).float().cpu()
        answer = subject.platform.post_load_model(model)
        expect(
            answer is None,
            f"post_load_model() answers with a {type(answer).__name__}, not None: the host keeps the model that it has",
        )
        tied = _tied(model)
        expect(
            tied == _TIED,
            f"parameters that were one are {' and '.join(map(repr, _TIED))}, and after post_load_model() {tied}: an"
            " update of one does not reach the other, and a tied head takes as much memory again",
            fix="look for modules that share a parameter, and change it once: `for name, parameter in"
            " model.named_parameters(remove_duplicate=False)`",
        )
        after = _described(model)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        expect(
            not changed,
            f"post_load_model() changes the parameters {', '.join(changed)}: {_two(before, after, changed)}",
        )
        number = sum(
            len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
        )
        expect(
            number <= hooks.setdefault(which, number),
            f"after post_load_model() the modules have {hooks[which]} hooks, and {number} when it is called again: the"
            " host calls it after each update of the weights, and every step runs them all",
            fix="look whether the module was prepared before, or remove the hook that was registered then",
        )
        with torch.no_grad():
            got = model(tokens).float().cpu()
        off = float((got - expected).abs().max())
        expect(
            off <= 1e-3 * float(expected.abs().max()),
            f"after post_load_model(){' of updated weights' if turn > 1 else ''} a model of plain layers computes"
            f" otherwise, by {off:.3g}",
        )


def _described(model: Any) -> dict[str, Any]:
    """What must stay of it: parameters and buffers by name, and the mode of each module."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    found: dict[str, Any] = {
        name: (
            tuple(p.shape),
            str(p.dtype),
            p.device.type,
            "with gradients" if p.requires_grad else "without",
        )
        for name, p in tensors
    }
    return found | {
        f"mode of {name or 'the model'}": "training" if module.training else "serving"
        for name, module in model.named_modules()
    }


def _two(before: dict[str, Any], after: dict[str, Any], names: list[str]) -> str:
    return "; ".join(f"{name} was {before.get(name)}, is {after.get(name)}" for name in names[:3])


def _model(torch: Any, subject: Subject, seed: int) -> Any:
    """Token ids -> logits, through layers that every model has, as the host loads it: to be served, not trained."""
    layers = torch.nn.Sequential(
        torch.nn.Embedding(16, 32),
        torch.nn.Linear(32, 64),
        torch.nn.SiLU(),
        torch.nn.BatchNorm1d(64),
        torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 32),
        torch.nn.Linear(32, 16, bias=False),
    )
    layers = layers.to(subject.device).eval().requires_grad_(False)
    layers[6].weight = layers[0].weight
    _update(torch, subject, layers, seed)
    return layers


_TIED = [["0.weight", "6.weight"]]
"""Names of the parameters of that model that are one: its embedding and its head."""


def _tied(model: Any) -> list[list[str]]:
    """The names of parameters that lie in the same memory."""
    names: dict[tuple[Any, ...], list[str]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        names.setdefault((one.untyped_storage()._cdata, one.storage_offset()), []).append(name)
    return [together for together in names.values() if len(together) > 1]


def _update(torch: Any, subject: Subject, model: Any, seed: int) -> None:
    """Give it weights of its own, by the names of its parameters, as the host loads them."""
    generator = torch.Generator().manual_seed(subject.seed + seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
