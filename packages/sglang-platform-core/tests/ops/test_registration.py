"""What `FusedOp.register_oot_forward` takes."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_platform.core import FusedOp


def forward(op: Any, x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", forward, "key"), "the name of an op, got ''"),
        ((int, forward, "key"), "the name of an op, got <class 'int'>"),
        (("ReLU2", None, "key"), "a function for 'ReLU2', got None"),
        (("ReLU2", forward, ""), "the dispatch key for 'ReLU2', a text, got ''"),
        (("ReLU2", forward, None), "the dispatch key for 'ReLU2', a text, got None"),
    ],
)
def test_what_cannot_serve_is_refused_where_it_is_registered(arguments: Any, words: str) -> None:
    before = dict(FusedOp._registry)
    with pytest.raises(TypeError, match="register_oot_forward needs") as caught:
        FusedOp.register_oot_forward(*arguments)
    assert words in str(caught.value)
    assert FusedOp._registry == before
