"""What the clients of `soak.py` ask, and what must hold of each answer.

The right tokens are those of transformers for the checkpoint with the adapter merged in, under the weights that the
answer names.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.adapters import make_adapter, merge_adapter
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.launch import COMPACT_JSON
from sglang_platform.conformance.host.fuzz.left_to_the_host import is_left
from sglang_platform.conformance.host.fuzz.regressions import CASES

__all__ = ["CONTEXT", "Asked", "Model", "draw"]

CONTEXT = 512
"""Tokens of prompt and answer."""

_LENGTHS = (1, 2, 5, 9, 15, 16, 17, 31, 33, 40, 64, 65, 90, 127, 150, 200, 255, 257, 300, 400)
_NEW_TOKENS = 48
_ADAPTERS = {"small": {"rank": 4, "alpha": 8, "seed": 1}, "large": {"rank": 16, "alpha": 16, "seed": 2}}
_ABORTED = "Aborted by AbortReq"
_REGEX = r"(red|green|blue)-[0-9]{3}"
_SCHEMA = {
    "type": "object",
    "properties": {"age": {"enum": [1, 22, 333]}, "on": {"type": "boolean"}},
    "required": ["age", "on"],
    "additionalProperties": False,
}
_HOSTILE = [case for case in CASES if case.path in ("/generate", "/v1/completions", "/v1/chat/completions")]
_OF_BAD_TOKENS = (
    "token id at",
    "token id far",
    "token id beyond",
    "negative token",
    "completion of a bad token",
)
_BAD_TOKENS = [case for case in _HOSTILE if case.name.startswith(_OF_BAD_TOKENS)]
_KINDS = {
    "greedy": 38, "stream": 14, "aborted": 8, "left": 10, "bad": 8, "bad token": 2, "regex": 6, "json": 4, "sampled": 5,
    "chat": 5,
}  # fmt: skip
"""How often each kind is drawn, of a hundred."""

Judge = Callable[[int, str], str | None]
"""Status and body of an answer to its fault; None where it is right, `aborted` where it says that it was."""


@dataclass(frozen=True)
class Asked:
    """One request of a client. `after` are the seconds until the client leaves, or until it asks for the abort."""

    kind: str
    path: str
    body: Any
    judge: Judge
    rid: str | None = None
    after: float | None = None
    adapter: str | None = None


class Model:
    """Two checkpoints of one shape, whose weights the server takes in turn, and two adapters; all made here."""

    versions = ("first", "second")

    def __init__(self, models: Path) -> None:
        self.checkpoints = dict(
            zip(
                self.versions,
                (
                    make_checkpoint(models / name, "llama", seed=s)
                    for s, name in enumerate(("llama", "llama-1"))
                ),
                strict=True,
            )
        )
        first = self.checkpoints["first"]
        self.adapters = {
            name: make_adapter(models / f"llama-lora-{name}", first, **how) for name, how in _ADAPTERS.items()
        }
        self.prompts = reference.prompts(_LENGTHS, seed=11, shared_prefix=8)
        self._tokens: dict[tuple[str, str | None], list[list[int]]] = {}
        for version, checkpoint in self.checkpoints.items():
            for adapter in (None, *self.adapters):
                merged = checkpoint if adapter is None else self._merged(models, checkpoint, adapter)
                self._tokens[version, adapter] = reference.greedy(merged, self.prompts, _NEW_TOKENS)

    def _merged(self, models: Path, checkpoint: Path, adapter: str) -> Path:
        return merge_adapter(
            models / f"{checkpoint.name}-merged-{adapter}", checkpoint, self.adapters[adapter]
        )

    def arguments(self) -> dict[str, Any]:
        """Options of the server's command line."""
        return {
            "model_path": str(self.checkpoints["first"]),
            "weight_version": "first",
            "context_length": CONTEXT,
            "max_total_tokens": 8192,
            "chunked_prefill_size": 256,
            "max_running_requests": 16,
            "cuda_graph_bs_decode": [1, 2, 4, 8, 16],
            "enable_metrics": True,
            "enable_lora": True,
            "lora_paths": [f"{name}={path}" for name, path in self.adapters.items()],
            "max_loras_per_batch": 3,
            "max_lora_rank": 16,
            **COMPACT_JSON,
        }

    def judge_tokens(self, number: int, adapter: str | None, count: int) -> Judge:
        """Of an answer of `/generate`, whole or streamed: its tokens are those of transformers."""

        def judge(status: int, body: str) -> str | None:
            if status != 200:
                return f"status {status}: {body[:300]}"
            answer = _last_of(body)
            if "meta_info" not in answer:
                return f"no answer but {body[:300]}"
            reason = answer["meta_info"]["finish_reason"] or {}
            version, got = answer["meta_info"]["weight_version"], answer["output_ids"]
            wanted = self._tokens[version, adapter][number][:count]
            if reason.get("type") == "abort":
                return "aborted" if got == wanted[: len(got)] else f"aborted, with {got} and not {wanted}"
            if got == wanted:
                return None
            return f"prompt {number}, adapter {adapter}, weights {version}: {got} and not {wanted}"

        return judge


def _last_of(body: str) -> Any:
    """The whole answer, or the last event of a stream of them; SGLang's events hold all tokens so far."""
    if not body.startswith("data:"):
        return json.loads(body)
    events = [line[5:] for line in body.splitlines() if line.startswith("data:")]
    return json.loads([one for one in events if one.strip() != "[DONE]"][-1])


def draw(model: Model, source: random.Random, rid: str, *, adapters: bool = True) -> Asked:
    """The next request of a client."""
    (kind,) = source.choices(list(_KINDS), list(_KINDS.values()))
    if kind == "bad":
        case = source.choice(_HOSTILE)
        return Asked(kind, case.path, case.body, _judge_bad(case.name, case.path, case.refused))
    if kind == "bad token":
        case = source.choice(_BAD_TOKENS)
        return Asked(kind, case.path, case.body, _judge_bad_token(case.name))
    if kind == "chat":
        said = " ".join(source.choice(("one", "two", "three")) for _ in range(source.randrange(1, 60)))
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": said}],
            "max_tokens": source.randrange(1, 32),
        }
        return Asked(kind, "/v1/chat/completions", body, _judge_text(lambda text: True))
    number, adapter = (
        source.randrange(len(model.prompts)),
        source.choice((None, None, *(model.adapters if adapters else ()))),
    )
    body = {"input_ids": model.prompts[number], "rid": rid}
    body |= {"lora_path": adapter} if adapter else {}
    if kind in ("regex", "json"):
        how = {"regex": _REGEX} if kind == "regex" else {"json_schema": json.dumps(_SCHEMA)}
        body["sampling_params"] = {"max_new_tokens": 64, "temperature": source.choice((0, 1)), **how}
        fits = (lambda text: bool(re.fullmatch(_REGEX, text))) if kind == "regex" else _fits_schema
        return Asked(kind, "/generate", body, _judge_text(fits), rid, adapter=adapter)
    if kind == "sampled":
        body["sampling_params"] = {
            "max_new_tokens": source.randrange(1, 40),
            "temperature": 1.0,
            "top_p": 0.9,
        }
        body |= {"return_logprob": source.random() < 0.5, "top_logprobs_num": 3}
        return Asked(kind, "/generate", body, _judge_text(lambda text: True), rid, adapter=adapter)
    long = kind in ("aborted", "left")
    count = _NEW_TOKENS if long else source.randrange(1, _NEW_TOKENS + 1)
    body["sampling_params"] = {"max_new_tokens": count, "temperature": 0, "ignore_eos": True}
    body |= {"stream": kind == "stream" or (kind == "left" and source.random() < 0.5)}
    after = source.uniform(0.01, 2.0) if long else None
    return Asked(kind, "/generate", body, model.judge_tokens(number, adapter, count), rid, after, adapter)


def _judge_bad(name: str, path: str, refused: bool) -> Judge:
    def judge(status: int, body: str) -> str | None:
        if (status == 0 or status >= 500) and not is_left(path, status, body):
            return f"{name}: status {status}: {body[:300]}"
        return f"{name}: served" if refused and status == 200 and "abort" not in body else None

    return judge


def _judge_bad_token(name: str) -> Judge:
    """A token that the model does not have is refused before it reaches the device, which would tell late or not."""

    def judge(status: int, body: str) -> str | None:
        return None if 400 <= status < 500 else f"{name}: status {status}: {body[:300]}"

    return judge


def _judge_text(fits: Callable[[str], bool]) -> Judge:
    def judge(status: int, body: str) -> str | None:
        if status == 400 and _ABORTED in body:
            return "aborted"  # it still waited
        if status != 200:
            return f"status {status}: {body[:300]}"
        answer = json.loads(body)
        if "choices" in answer:
            (choice,) = answer["choices"]
            text, reason = choice["message"]["content"] or "", choice["finish_reason"]
        else:
            text, reason = answer["text"], answer["meta_info"]["finish_reason"]["type"]
        if reason == "abort":
            return "aborted"
        return None if fits(text) else f"the text is {text[:200]!r}"

    return judge


def _fits_schema(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and set(found) == {"age", "on"} and isinstance(found["on"], bool)
