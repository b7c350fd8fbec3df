"""Level 2: the calls that the host makes once in a worker's life: what they answer, and what they leave behind."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.factories import expect_known
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import Ending, until_it_ends, whoami
from sglang_platform.conformance.probes.traces import SETTINGS
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.installed.modules import find_module
from sglang_platform.core.spelling import nearest

__all__ = ["life_of_a_worker"]

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


def life_of_a_worker(subject: Subject, attempt: int = 0) -> dict[str, Any]:
    """What a fresh process told of the calls of a worker's start."""
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


_check = partial(check, level=Level.CONTRACT, needs="device", seconds=200)


@_check(
    fix="register and load in init_backend(), set no defaults of the process, and do nothing a second time: a worker"
    " with a draft model calls it twice"
)
def init_backend_can_be_called_twice(subject: Subject) -> None:
    """In a fresh worker `init_backend()` answers None, prints nothing to standard output, leaves the defaults of torch
    and numpy, the root logger, signals, random numbers, garbage collection, child processes, the start method, how the
    process is scheduled and variables that the operator set or that are for all programs as they were, and a second
    call changes nothing."""
    told = life_of_a_worker(subject)
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


@_check(
    fix="open the device of local_rank, which counts on this machine; rank counts the workers of all machines. Set no"
    " defaults of the process: the host sets them"
)
def workers_open_their_own_device(subject: Subject) -> None:
    """In a fresh worker of a second machine, rank 65 with local rank 0, `initialize_device()` answers None, makes the
    first device current, and leaves torch's defaults and threads, the root logger, signals, random numbers and the
    start method as they were."""
    worker = life_of_a_worker(subject).get("worker")
    if worker is None:
        raise NotApplicable("initialize_device() is core's, and the platform is written on SGLang's classes")
    if "raised" in worker:
        raise CheckFailed(
            f"initialize_device(rank=65, local_rank=0) raises {worker['raised']}\n{worker['trace']}"
        )
    expect(worker["answered"] == "None", f"initialize_device() answers {worker['answered']}, not None")
    expect(
        not worker["current"],
        f"after initialize_device(rank=65, local_rank=0) the current device is {worker['current']}",
    )
    settings = [one for one in SETTINGS if one != _PROCESSORS]
    found = [one for one in worker["changes"] if one.startswith(tuple(settings))]
    expect(not found, f"initialize_device() leaves traces: {'; '.join(found)}")


@_check(
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
        told = life_of_a_worker(subject, attempt)
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


@_check(
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


@_check(
    fix="answer, or do what the name says, and nothing else: no defaults of torch, no seeds, variables and loggers"
)
def device_operations_leave_the_process_alone(subject: Subject) -> None:
    """Each operation of the device leaves torch's defaults, variables, folders, signal handlers, loggers, warnings,
    functions of others and, but for a seed, random numbers as they were."""
    told = life_of_a_worker(subject)
    if "operations" not in told:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
    for call, found in told["operations"].items():
        seeds = call.startswith("seed_everything(") and "None" not in call
        left = [one for one in found if not (seeds and one.startswith("the state of the random numbers"))]
        expect(not left, f"{call} leaves traces: {'; '.join(left)}", case={"call": call})


@_check(
    hosts=("none",),
    fix="assign, in place, what the device needs and the operator left open (`if server_args.page_size is None: ...`);"
    " refuse in words what it cannot serve; write no files",
)
def server_arguments_are_kept(subject: Subject) -> None:
    """`apply_server_args_defaults()` and `finalize_server_args()` answer None, assign arguments and names that the host
    has, keep what the operator named (sizes, seeds, the platform's own attention backend and page size), change nothing
    more when they are called again, settle the arguments of a second engine alike, write no files, and hide no devices
    from the workers."""
    told = life_of_a_worker(subject)
    for name, one in told["arguments"].items():
        method, _, how = name.partition("/")
        if one["asked"]:
            raise NotApplicable(f"{method}() calls server_args.{one['asked'][0]}(), which only SGLang has")
        case = {"method": method, "arguments": how}
        if "raised" in one:
            raise CheckFailed(f"{method}() raises {one['raised']}\n{one['trace']}", case=case)
        expect(one["answered"] == "None", f"{method}() answers {one['answered']}, not None", case=case)
        _all_known(method, one["unknown"], case)
        for argument, value in one["assigned"].items():
            if value[:1] in ("'", '"'):
                says = f"{method}() assigns {argument} = {value},"
                expect_known(subject, argument, literal_eval(value), says)
        _same(f"{method}() changes what the operator named", one["lost"], case)
        _same(f"{method}(), called again, changes more", one["again"], case)
        _same(f"{method}() settles the same arguments of a second engine otherwise", one["second"], case)
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
