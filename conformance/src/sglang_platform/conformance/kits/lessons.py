"""What the kits' model is taught: an answer to each sentence that the installed SGLang's kits say to a model.

The sentences are read from the kits' own source, so that a release with other questions has its own lessons. What has
no answer here is answered with a text that goes on for ever, as most kits need.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

__all__ = ["STORY", "Lesson", "lessons", "sentences"]

STORY = """ The river begins between two grey hills, and nobody in the valley knows how old it is. Every spring the
snow melts, the water climbs over the lower meadows, and the farmers carry their hay up to the barns. A miller called
Anders kept a small boat there, painted green, with one oar or two, as the weather asked.
One evening a stranger came down the road. She had walked for nine days, she said, and wanted to reach the sea before
autumn. Anders gave her bread, showed her the map on his wall, and told her which villages would lend her a bed.
In the morning fog lay over everything. They pushed the boat from the bank, heard geese somewhere above, and let the
current choose the pace. By noon the hills were far behind them!
What did they talk about? Bees, bridges, winters, the price of rope, a lost brother, and a song that both had learnt
as children. At the first lock a boy took their line without a word. At the second a dog jumped aboard and stayed.
So the days went. Towns grew on the banks, chimneys smoked, markets rang with voices, and barges full of timber passed
so close that one could smell the resin.
"""
"""Sentences, lines and the usual words, with no phrase twice: kits look for stops in it, and for loops."""

_CAPITALS = {
    "Australia": "Canberra",
    "Egypt": "Cairo",
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Japan": "Tokyo",
    "Russia": "Moscow",
    "Spain": "Madrid",
}

_ENDING = {
    "The JSON Schema is": '{"name": "Paris", "population": 2100000}',
    "in the JSON format": '{"name": "Paris", "population": 2100000, "country": "France", "capital": "Paris"}',
    "capital of Bulgaria": '{"capital": "Sofia"}',
    "Give me a json": '{"answer": 42}',
    "2 + 2": "4",
    "email address": "user@example.com",
    "a greeting": "Hello",
    "three-digit number": "123",
    "phone number": "(123) 456-7890",
    "YYYY-MM-DD": "2024-05-17",
    "hex color": "#1A2B3C",
    "JSON with name": '{"name": "Anna", "age": 30, "city": "Paris"}',
    "log entry": "[2024-01-01T12:00:00Z] INFO: System.process - Operation done successfully",
    "optional settings": '{"name":"config_service", "arguments":{"theme":"dark"}}',
}
"""After these the model ends its text: what a grammar asks for is over then."""

_BEGINNING = {
    **{f"capital of {country}": f" {city}.\n" for country, city in _CAPITALS.items()},
    "17 multiplied by 23": " 391.\n",
    "primary colors": " yellow.\n",
}
"""Before the story."""


class Lesson(NamedTuple):
    """A text to a model and its answer; `ends` where the model says no more after it."""

    question: str
    answer: str
    ends: bool

    @property
    def tells(self) -> bool:
        """Whether the answer is of this question alone, and not the story."""
        return self.answer != STORY


def sentences() -> list[str]:
    """Every sentence in the source of the kits of the installed SGLang, sorted: texts of errors are among them.

    Raises ImportError where SGLang or its kits are not installed.
    """
    kits = find_spec("sglang.test.kits") if find_spec("sglang") else None
    if kits is None or not kits.submodule_search_locations:
        raise ImportError("this environment has no SGLang with test kits")
    found: set[str] = set()
    for folder in kits.submodule_search_locations:
        for path in Path(folder).glob("*.py"):
            found.update(_texts(ast.parse(path.read_text())))
    return sorted(found)


def lessons(said: list[str], schema: str | None = None) -> list[Lesson]:
    """A lesson for each sentence, plain and as chat uses it; `schema` is what the kit for JSON adds to its question."""
    systems = [one for one in said if one.startswith("You are a helpful")]
    found: list[Lesson] = []
    for sentence in said:
        question = sentence + json.dumps(schema) if schema and sentence.endswith("Schema is: ") else sentence
        answer, ends = _answer(question)
        found.append(Lesson(question, answer, ends))
        found.append(Lesson(_chat(question), answer, ends))
        if answer != STORY:
            found += [Lesson(_chat(question, system), answer, ends) for system in systems]
            found += [Lesson(one + question, answer, ends) for one in systems if one.endswith("\n")]
    return found


def _answer(question: str) -> tuple[str, bool]:
    for words, answer in _ENDING.items():
        if words in question:
            return answer, True
    for words, answer in _BEGINNING.items():
        if words in question:
            return answer + STORY, False
    return STORY, False


def _chat(user: str, system: str | None = None) -> str:
    first = f"<|system|>\n{system}\n" if system else ""
    return f"{first}<|user|>\n{user}\n<|assistant|>\n"


def _texts(tree: ast.AST) -> Iterator[str]:
    """Constant texts of several words that are neither docstrings nor parts of a format."""
    no_text = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            no_text.update(map(id, node.values))
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in no_text else None
        if isinstance(text, str) and " " in text.strip() and any(map(str.isalpha, text)):
            yield text
