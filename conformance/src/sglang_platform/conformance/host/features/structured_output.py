"""Structured output: every kind of constraint, with every grammar backend of SGLang."""

from __future__ import annotations

import json
import re
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.launch import COMPACT_JSON, PLAIN, EngineLaunch
from sglang_platform.conformance.host.features.record import feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Structured output"
_FIX = (
    "answer get_token_bitmask_fn() with a function that sets to -inf, in place, the logits whose bit is 0; without "
    "one core's own serves"
)
_LLGUIDANCE = EngineLaunch("grammar_llguidance", {"grammar_backend": "llguidance", **COMPACT_JSON})
_OUTLINES = EngineLaunch("grammar_outlines", {"grammar_backend": "outlines", **COMPACT_JSON})

_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"age": {"enum": [1, 22, 333]}, "on": {"type": "boolean"}},
        "required": ["age", "on"],
        "additionalProperties": False,
    }
)
_REGEX = r"(red|green|blue)-[0-9]{3}"
_EBNF = 'root ::= ("left" | "right") " " ("up" | "down")'
_NEW_TOKENS = 64


def _texts(run: Running, prompts: list[list[int]], **constraint: str) -> list[str]:
    replies = run.engine.call(
        "generate_constrained", input_ids=prompts, max_new_tokens=_NEW_TOKENS, **constraint
    )
    return [str(reply["text"]) for reply in replies]


def _holds(run: Running, constraint: dict[str, str], fits: Any) -> None:
    """Alone and eight at a time the answers fit; requests without a constraint beside them stay as they are."""
    (one,) = reference.prompts([12])
    many = reference.prompts([9, 17, 40, 64, 5, 33, 21, 80], seed=3)
    for prompts in ([one], many):
        for text in _texts(run, prompts, **constraint):
            expect(fits(text), f"asked for {constraint}, the engine answers {text!r}")
    plain = reference.prompts([30, 90], seed=5)
    mixed = run.engine.call(
        "generate_mixed", plain=plain, constrained=many[:2], max_new_tokens=24, **constraint
    )
    expect(
        mixed == run.expected(plain, 24),
        "requests without a constraint get other tokens when they run beside constrained ones",
    )


def _is_json(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and set(found) == {"age", "on"} and isinstance(found["on"], bool)


def _register(launch: EngineLaunch, backend: str, kinds: dict[str, tuple[str, dict[str, str], Any]]) -> None:
    for name, (title, constraint, fits) in kinds.items():

        def proof(run: Running, constraint: dict[str, str] = constraint, fits: Any = fits) -> None:
            _holds(run, constraint, fits)

        proof.__name__ = f"{name}_{backend}"
        proof.__doc__ = (
            f"Answers constrained by {title} ({backend}) fit it; others beside them are as without."
        )
        feature(group=_GROUP, title=f"{title}, {backend}", launch=launch, fix=_FIX)(proof)


_KINDS: dict[str, tuple[str, dict[str, str], Any]] = {
    "json_schema": ("a JSON schema", {"json_schema": _SCHEMA}, _is_json),
    "regex": ("a regular expression", {"regex": _REGEX}, lambda text: bool(re.fullmatch(_REGEX, text))),
    "ebnf": (
        "an EBNF grammar",
        {"ebnf": _EBNF},
        lambda text: bool(re.fullmatch("(left|right) (up|down)", text)),
    ),
}

_register(PLAIN, "xgrammar", _KINDS)
_register(_LLGUIDANCE, "llguidance", _KINDS)
_register(_OUTLINES, "outlines", {name: kind for name, kind in _KINDS.items() if name != "ebnf"})


def _function(name: str, **parameters: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": parameters,
        "required": list(parameters),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": schema}}


_COLOURS, _LEVELS = ["red", "green", "blue"], [1, 22, 333]
_TOOLS = {
    "paint": _function("paint", colour={"enum": _COLOURS}, twice={"type": "boolean"}),
    "ring": _function("ring", level={"enum": _LEVELS}),
}


def _fits(name: str, arguments: Any) -> bool:
    if not isinstance(arguments, dict):
        return False
    if name == "ring":
        return set(arguments) == {"level"} and arguments["level"] in _LEVELS
    return (
        set(arguments) == {"colour", "twice"}
        and arguments["colour"] in _COLOURS
        and isinstance(arguments["twice"], bool)
    )


@feature(group=_GROUP, title="forced tool calls, xgrammar", launch=PLAIN, fix=_FIX)
def tool_calls_xgrammar(run: Running) -> None:
    """A chat that must call a function, any or the one that it names, calls it with arguments that fit the function's
    schema: alone, and several chats at once."""
    named = [{"type": "function", "function": {"name": name}} for name in _TOOLS]
    choices: list[Any] = ["required", *named]
    said = ("a door", "two fences and a wall", "seven bells")
    chats = [(choice, words) for choice in choices for words in said]
    for batch in (*([chat] for chat in chats[::3]), chats):
        bodies = [
            {
                "model": "served",
                "messages": [{"role": "user", "content": words}],
                "tools": list(_TOOLS.values()),
                "tool_choice": choice,
                "parallel_tool_calls": False,
                "temperature": 0,
                "max_tokens": 2 * _NEW_TOKENS,
            }
            for choice, words in batch
        ]
        for (choice, _), answer in zip(batch, run.engine.call("chat", bodies=bodies), strict=True):
            expect("choices" in answer, f"a chat that must call a function is refused: {answer}")
            message = answer["choices"][0]["message"]
            calls = message["tool_calls"] or []
            expect(
                len(calls) == 1,
                f"tool_choice {choice}: {len(calls)} calls, and the text {message['content']!r}",
            )
            called = calls[0]["function"]
            allowed = list(_TOOLS) if choice == "required" else [choice["function"]["name"]]
            expect(called["name"] in allowed, f"tool_choice {choice}: {called['name']} is called")
            expect(
                _fits(called["name"], json.loads(called["arguments"])),
                f"tool_choice {choice}: the arguments {called['arguments']} do not fit the schema of {called['name']}",
            )
