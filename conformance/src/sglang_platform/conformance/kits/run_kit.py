"""The process in which kits run: `python -m ...run_kit URL MODEL SERVER_PID PATIENCE`.

It takes names of kits, a line each, and answers each with a JSON object a line for every test, and null at the end.

The kits are run as they are. Around them: a data set that would be downloaded is replaced by prompts of our own, the
radix tree's default size by one for a small device, and each test has a time limit.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import time
import types
import unittest
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sglang_platform.conformance.kits.table import KITS, Kit

_replies = os.fdopen(os.dup(1), "w")


class _OutOfTime(BaseException):
    """The time limit of a test; no `except Exception` of a kit swallows it."""


class _Process:
    """What kits ask of the server's process: whether it ended. Another's child, it stays a zombie then (Linux)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return 1
        return 1 if state == "Z" else None


def _prompts(count: int, length: int, vocabulary: int = 30000) -> list[list[int]]:
    drawn = random.Random(0)
    return [[drawn.randint(10, vocabulary) for _ in range(length)] for _ in range(count)]


def _without_downloads() -> None:
    with contextlib.suppress(ImportError):
        kl: Any = importlib.import_module("sglang.test.kl_test_utils")
        kl.get_input_ids = lambda *args, num_samples=None, **kwargs: _prompts(num_samples or 4, 128)
    with contextlib.suppress(ImportError):
        hits: Any = importlib.import_module("sglang.test.kits.cache_hit_kit")
        row = types.SimpleNamespace
        hits.sample_random_requests = lambda input_len, output_len, num_prompts, **kwargs: [
            row(prompt=ids, prompt_len=input_len, output_len=output_len)
            for ids in _prompts(num_prompts, input_len)
        ]
    with contextlib.suppress(ImportError):
        tree: Any = importlib.import_module("sglang.test.kits.radix_cache_server_kit")
        tree.gen_radix_tree.__defaults__ = (60, 48)


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def end(signum: int, frame: Any) -> None:
        raise _OutOfTime(f"not done within {seconds:.0f} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _tests(kit: Kit, url: str, model: str, server: _Process) -> Iterator[tuple[str, Callable[[], Any]]]:
    module = importlib.import_module(f"sglang.test.kits.{kit.module}")
    if kit.function is not None:
        function = getattr(module, kit.function)
        arguments = {"base_url": url, **kit.attributes}
        if "model_path" in function.__code__.co_varnames[: function.__code__.co_argcount]:
            arguments["model_path"] = model
        yield kit.function, lambda: function(**arguments)
        return
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    openai = importlib.import_module(
        "sglang.test.kits.json_constrained_kit"
    ).openai  # SGLang's own requirement
    given = {
        "base_url": url,
        "model": model,
        "api_key": "none",
        "client": openai.Client(api_key="none", base_url=f"{url}/v1"),
        "tokenizer": tokenizer,
        "input_ids": _prompts(8, 256),
        "process": server,
        "run_decode": lambda self, params: _decode(url, params),
        **kit.attributes,
    }
    for name in kit.classes:
        cls = type(name, (getattr(module, name), unittest.TestCase), dict(given))
        for test in unittest.TestLoader().getTestCaseNames(cls):
            yield test, getattr(cls(test), test)


def _decode(url: str, params: dict[str, Any]) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 64, **params}
    _post(url, "/generate", {"text": "The capital of France is", "sampling_params": sampling})


def _post(url: str, path: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=60).close()


def _run(kit: Kit, name: str, test: Callable[[], Any], patience: float) -> dict[str, Any]:
    if name in kit.left_out:
        return {"test": name, "outcome": "left out", "words": kit.left_out[name]}
    started = time.monotonic()
    try:
        with _limit(kit.seconds * patience):
            test()
        outcome, words = "passed", ""
    except unittest.SkipTest as skipped:
        outcome, words = "skipped", str(skipped)
    except (Exception, _OutOfTime) as error:  # noqa: BLE001 - whatever a kit raises is its verdict
        outcome, words = "failed", f"{type(error).__name__}: {error}"[:600]
    return {"test": name, "outcome": outcome, "words": words, "seconds": round(time.monotonic() - started, 1)}


def main(url: str, model: str, pid: str, patience: str) -> None:
    os.dup2(2, 1)  # the kits print
    server = _Process(int(pid))
    kits = {kit.name: kit for kit in KITS}
    _without_downloads()
    for line in sys.stdin:
        _run_kit(kits[line.strip()], url, model, server, float(patience))
        print(json.dumps(None), file=_replies, flush=True)


def _run_kit(kit: Kit, url: str, model: str, server: _Process, patience: float) -> None:
    if server.poll() is not None:
        _reply(kit, {"test": "the server before", "outcome": "failed", "words": "it had ended"})
        return
    random.seed(0)
    try:
        tests = list(_tests(kit, url, model, server))
    except (ImportError, AttributeError) as missing:
        words = f"{type(missing).__name__}: {missing}"
        _reply(kit, {"test": "", "outcome": "missing", "words": words})
        return
    for test, run in tests:
        _reply(kit, _run(kit, test, run, patience))
    if kit.module == "pause_generation_kit":
        with contextlib.suppress(OSError):
            _post(url, "/continue_generation", {})  # a test that failed may have left it paused
    if server.poll() is not None:
        _reply(kit, {"test": "the server afterwards", "outcome": "failed", "words": "it ended"})


def _reply(kit: Kit, body: dict[str, Any]) -> None:
    print(json.dumps({"kit": kit.name, **body}), file=_replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
