"""Level 7, at the end: engines with other page sizes, and that an engine stops when it is told to."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.host import asked, processes
from sglang_platform.conformance.host.asked import NEW_TOKENS
from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.host.session import STOPPED, Session, session
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@check(
    level=Level.HOST,
    requires=[engine()],
    hosts=("sglang",),
    seconds=120,
    fix="end the threads and processes that the platform's parts start, and do not catch SIGTERM",
)
def engine_stops(subject: Subject) -> None:
    """The engine stops when it is told to, and leaves no process behind."""
    found = session(subject)
    if found.engine is None:
        raise Blocked("the engine does not start: see host.engine_starts")
    started = [report["pid"] for report in processes.read(found.report_dir)]
    found.engine.close()
    found.engine, found.failure = None, STOPPED
    left: list[int] = []
    for _ in range(50):
        left = [pid for pid in started if _is_running(pid)]
        if not left:
            return
        time.sleep(0.2)
    raise CheckFailed(f"10 s after it was stopped, the processes {left} still run")


@check(
    level=Level.HOST,
    requires=[engine()],
    hosts=("sglang",),
    seconds=800,
    fix="look at how page numbers become slots: slot = page * page_size + offset",
)
def page_sizes_agree(subject: Subject) -> None:
    """The smallest and the largest page size that are declared, up to 64 tokens, give the same right tokens."""
    main = session(subject)
    if main.failure is not None and main.failure != STOPPED:
        raise Blocked("the engine does not start: see host.engine_starts")
    used = main.page_size
    sizes = [size for size in subject.declares.page_sizes if size <= 64 and size != used]
    if not sizes:
        raise NotApplicable(f"no other page size than {used} is declared")
    prompts = [asked.single(17), asked.single(300)]
    for size in sorted({sizes[0], sizes[-1]}):
        other = Session(subject, size, graphs=False)
        try:
            running = other.start()
        except EngineFailed as error:
            other.close()
            raise CheckFailed(
                f"with pages of {size} tokens: {error}",
                case={"page_size": size},
                fix="read the lines that SGLang printed last; where the device cannot have this page size, take it out "
                "of supported_page_sizes",
            ) from None
        try:
            replies = running.call("generate", input_ids=prompts, max_new_tokens=NEW_TOKENS)
            for prompt, reply in zip(prompts, replies, strict=True):
                wrong = other.difference(prompt, reply["output_ids"])
                expect(wrong is None, f"with pages of {size} tokens: {wrong}", case={"page_size": size})
        finally:
            other.close()


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return state != "Z"
