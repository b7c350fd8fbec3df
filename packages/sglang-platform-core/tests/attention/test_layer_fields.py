"""Every field of SGLang's attention layers is known, and a backend serves or refuses what it asks for."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.attention.batch import AttentionLayer, ForwardMode
from sglang_platform.core.attention.layer_fields import CHANGING, FEATURES_OF, WITHOUT_EFFECT
from sglang_platform.core.contract.attention_features import FEATURES
from sglang_platform.core.errors import PlatformError

# The environment of the release that is in `host` takes SGLang from there.
_PACKAGES = (Path(sys.prefix).parent / "host-matrix").glob("0.*/lib/python3.*/site-packages/sglang")
RELEASES = sorted(package.parent for package in _PACKAGES)
ASKED = {
    "is_cross_attention": True,
    "use_irope": True,
    "pos_encoding_mode": "ALIBI",
    "xai_temperature_len": 1024,
    "logit_capping_method": "sigmoid",
}
BACKENDS = (
    "sglang_platform.example_oot.attention:ExampleOOTAttentionBackend",
    "sglang_platform.core.portable.triton.attention:TritonAttentionBackend",
    "sglang_platform.cuda.attention.backend:CudaAttentionBackend",
    "sglang_platform.rocm.attention.backend:RocmAttentionBackend",
    "sglang_platform.conformance.reference.attention:ReferenceAttention",
)


def fields_of(site_packages: Path) -> set[str]:
    """What the constructor of `RadixAttention` sets."""
    text = (site_packages / "sglang/srt/layers/radix_attention.py").read_text(encoding="utf-8")
    found = [
        one
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.ClassDef) and one.name == "RadixAttention"
    ]
    return {
        target.attr
        for node in ast.walk(found[0])
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


@pytest.mark.host
@pytest.mark.skipif(not RELEASES, reason="nox -s host-matrix installs the releases")
@pytest.mark.parametrize("release", RELEASES, ids=[one.parents[2].name for one in RELEASES])
def test_every_field_of_the_release_is_known(release: Path) -> None:
    fields = fields_of(release)
    assert {"scaling", "layer_id", "logit_cap"} <= fields
    assert fields - set(CHANGING) - set(FEATURES_OF) - WITHOUT_EFFECT == set()


@pytest.mark.host
def test_the_installed_release_has_no_field_that_core_lacks() -> None:
    from sglang_platform.core.sglang.attention.layer_fields import later_fields

    assert later_fields() == {}


def test_words_are_the_contracts_and_defaults_those_of_cores_own_layer() -> None:
    assert set(FEATURES_OF.values()) <= set(FEATURES)
    made = layer()
    assert {name: getattr(made, name) for name in CHANGING} == dict(CHANGING)
    assert set(ASKED) == set(CHANGING)


def layer(**fields: Any) -> AttentionLayer:
    return AttentionLayer(0, 1, 1, 1, 4, 4, 1.0, **fields)


class Ignoring(AttentionBackend):
    """A vendor's backend that reads none of them."""

    def forward_decode(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        return q

    forward_extend = forward_decode


class Computing(Ignoring):
    layer_fields = frozenset(ASKED)


class Later(Ignoring):
    _later_fields = {"head_gate": None, "wraps": True}


def forward(backend: type, at: Any, mode: ForwardMode) -> Any:
    runner = SimpleNamespace(token_to_kv_pool=None, req_to_token_pool=None, device="cpu")
    return backend(runner).forward(torch.zeros(1, 4), None, None, at, SimpleNamespace(forward_mode=mode))


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.EXTEND])
@pytest.mark.parametrize("name", ASKED)
def test_a_field_that_a_backend_does_not_list_is_refused_by_name(name: str, mode: ForwardMode) -> None:
    at = layer(**{name: ASKED[name]}, logit_cap=30.0)
    with pytest.raises(PlatformError, match=f"Ignoring does not serve what .*: {name}={ASKED[name]}"):
        forward(Ignoring, at, mode)
    assert forward(Computing, at, mode) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"logit_capping_method": "sigmoid"},
        {"xai_temperature_len": 0},
        {"xai_temperature_len": None},
        {"logit_cap": 30.0, "sliding_window_size": 8},
        {"k_scale": 0.5, "v_scale": 0.5},
    ],
)
def test_what_asks_for_nothing_passes(fields: dict[str, Any]) -> None:
    assert forward(Ignoring, layer(**fields), ForwardMode.DECODE) is not None


def test_a_later_releases_field_is_refused_where_it_is_not_its_default() -> None:
    at = layer()
    forward(Later, at, ForwardMode.DECODE)
    at.head_gate, at.wraps = torch.ones(1), True  # type: ignore[attr-defined]
    with pytest.raises(PlatformError, match="head_gate"):
        forward(Later, at, ForwardMode.DECODE)


@pytest.mark.parametrize("place", BACKENDS)
def test_our_backends_are_under_the_rule(place: str) -> None:
    module, _, name = place.partition(":")
    cls = getattr(importlib.import_module(module), name)
    assert inspect.getattr_static(cls, "forward") is AttentionBackend.forward
    assert not cls.layer_fields
