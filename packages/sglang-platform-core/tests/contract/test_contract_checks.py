# Overrides take the contract's parameters, whether they use them or not.

import functools
import re
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.contract import (
    DeviceMixin,
    MMPlatform,
    PlatformCapabilities,
    PlatformEnum,
    SRTPlatform,
    public_names,
)
from sglang_platform.core.contract.drift import older_names
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.errors import ContractError

HERE = str(Path(__file__))


class Runner:
    pass


def platform(body, bases=(SRTPlatform,)):
    return type("Vendor", bases, dict(body))


def refusal(body, bases=(SRTPlatform,)):
    with pytest.raises(ContractError) as caught:
        platform(body, bases)
    return caught.value


def a_method(*_, **__):
    return None


async def an_async_method(self): ...


def a_generator_method(self, device_id):
    yield device_id


WRONG = [
    # a name the contract does not know
    (
        {"get_graph_runner_class": a_method},
        "get_graph_runner_class is not a name of the contract, did you mean get_graph_runner_cls?",
    ),
    (
        {"suport_cuda_graph": a_method},
        "suport_cuda_graph is not a name of the contract, did you mean capabilities.graph_capture?",
    ),
    ({"get_nsa_kv_pool_class": a_method}, "did you mean get_kv_pool_cls(kind='dsa')?"),
    ({"frobnicate": a_method}, "frobnicate is not a name of the contract"),
    ({"BLOCK": 128}, "BLOCK is not a name of the contract"),
    ({"Config": Runner}, "Config is not a name of the contract"),
    (
        {"optimize_vae": a_method},
        "optimize_vae is not a name of the contract here: it belongs to MMPlatform, and nothing calls it",
    ),
    # an override that cannot take the contract's calls
    (
        {"get_kv_pool_cls": lambda self: None},
        "get_kv_pool_cls lost parameter 'kind'; the contract has get_kv_pool_cls(*, kind)",
    ),
    (
        {"get_device_name": lambda self: ""},
        "get_device_name lost parameter 'device_id'; the contract has get_device_name(device_id=0)",
    ),
    ({"get_device_name": lambda self, index=0: ""}, "renames parameter 'device_id' to 'index'"),
    ({"get_device_name": lambda self, device_id: ""}, "makes parameter 'device_id' required"),
    (
        {"init_backend": lambda self, rank: None},
        "init_backend requires a new parameter 'rank'; the contract has init_backend()",
    ),
    ({"get_compile_backend": lambda self, *, mode=None: ""}, "cannot take 'mode' by position"),
    ({"get_compile_backend": staticmethod(lambda: "")}, "get_compile_backend lost parameter 'mode'"),
    (
        {"get_compile_backend": functools.lru_cache(lambda self: "")},
        "get_compile_backend lost parameter 'mode'",
    ),
    (
        {"get_compile_backend": functools.partialmethod(lambda self, x: "", 1)},
        "get_compile_backend lost parameter 'mode'",
    ),
    ({"support_cuda_graph": lambda self, mode: True}, "support_cuda_graph requires a new parameter 'mode'"),
    # a method that is something else
    (
        {"get_graph_runner_cls": Runner},
        "get_graph_runner_cls is the class Runner; the contract calls get_graph_runner_cls(): write a method",
    ),
    (
        {"get_graph_runner_cls": None},
        "get_graph_runner_cls is the value None; the contract calls get_graph_runner_cls()",
    ),
    ({"get_dispatch_key_name": "cuda"}, "get_dispatch_key_name is the value 'cuda'"),
    ({"get_dispatch_key_name": property(lambda self: "cuda")}, "get_dispatch_key_name is a property"),
    (
        {"support_cuda_graph": True},
        "support_cuda_graph is the value True; the contract calls support_cuda_graph()",
    ),
    ({"init_backend": an_async_method}, "init_backend is async"),
    (
        {"reindex_device_id": a_generator_method},
        "reindex_device_id is a generator; the contract wants a method with @contextlib.contextmanager",
    ),
    (
        {"seed_everything": lambda self, seed=None: None},
        "seed_everything is an instance method; the contract calls it on the class: make it a classmethod",
    ),
    # an attribute that is something else
    ({"device_name": lambda self: "x"}, "device_name is a method; the contract reads it as an attribute"),
    (
        {"capabilities": classmethod(lambda cls: None)},
        "capabilities is a method; the contract reads it as an attribute",
    ),
    ({"cpu_arch": lambda self: None}, "cpu_arch is a method"),
    # a value the contract cannot use
    (
        {"capabilities": {"graph_capture": True}},
        "capabilities is {'graph_capture': True}, not a PlatformCapabilities instance",
    ),
    ({"capabilities": PlatformCapabilities}, "not a PlatformCapabilities instance (call it)"),
    ({"_enum": "OOT"}, "_enum is 'OOT', not a member of PlatformEnum"),
    ({"device_type": "cuda:0"}, "device_type is 'cuda:0': a device type carries no index"),
    ({"device_type": "board2"}, "device_type is 'board2': torch reads lower-case letters and underscores"),
    ({"device_type": "Board"}, "device_type is 'Board': torch reads lower-case letters and underscores"),
    (
        {"device_type": "my-board"},
        "device_type is 'my-board': torch reads lower-case letters and underscores",
    ),
    ({"device_type": ""}, "device_type is '', not a non-empty str"),
    ({"device_name": None}, "device_name is None, not a non-empty str"),
    (
        {"supported_quantization": "fp8"},
        "supported_quantization is 'fp8', not a collection such as [\"fp8\"]",
    ),
    (
        {"supported_page_sizes": (1, 0)},
        "supported_page_sizes holds 0, not a number of tokens (an int of at least 1)",
    ),
    ({"supported_page_sizes": 16}, "supported_page_sizes is 16, not a collection such as (1, 16, 64)"),
    (
        {"supported_kv_kinds": ("mha", "mls")},
        f"supported_kv_kinds holds 'mls', which is none of {', '.join(sorted({*KINDS, 'nsa'}))}, did you mean 'mla'?",
    ),
    ({"supported_kv_dtypes": ("torch.bfloat16",)}, "supported_kv_dtypes holds 'torch.bfloat16'"),
    ({"attention_features": {"sliding_windows"}}, "did you mean 'sliding_window'?"),
    (
        {"kernels": ("vendor.kernels.decode",)},
        "kernels holds 'vendor.kernels.decode', not a location \"pkg.mod:NAME\"",
    ),
    ({"extra_public_names": "dump"}, "extra_public_names is 'dump', not a collection"),
]

RIGHT = [
    {"get_device_name": lambda self, device_id=0, verbose=False: ""},
    {"get_device_name": lambda self, *args, **kwargs: ""},
    {"get_device_name": functools.lru_cache(lambda self, device_id=0: "")},
    {"get_device_name": classmethod(lambda cls, device_id=0: "")},
    {"get_device_name": staticmethod(lambda device_id=0: "")},
    {"get_kv_pool_cls": lambda self, kind: None},
    {"get_kv_pool_cls": lambda self, **asked: None},
    {"reindex_device_id": contextmanager(a_generator_method)},
    {"seed_everything": classmethod(lambda cls, seed=None: None)},
    {"seed_everything": staticmethod(lambda seed=None: None)},
    {"capabilities": PlatformCapabilities(graph_capture=True)},
    {"capabilities": property(lambda self: PlatformCapabilities())},
    {"capabilities": functools.cached_property(lambda self: PlatformCapabilities())},
    {"device_name": property(lambda self: "x"), "_enum": PlatformEnum.OOT},
    {"_anything": 3, "_helper": a_method, "__slots__": ()},
    {"extra_public_names": frozenset({"dump", "LIMIT"}), "dump": a_method, "LIMIT": 3},
    {
        "supported_kv_kinds": ["mha", "nsa"],
        "attention_features": frozenset({"gqa"}),
        "kernels": ("v.k:SPEC",),
    },
    {
        "conformance_profiles": ("core", "mla"),
        "supported_page_sizes": range(1, 3),
        "supported_kv_dtypes": ("float8_e4m3fn",),
        "supported_quantization": [],
    },
]


@pytest.mark.parametrize(("body", "words"), WRONG, ids=[words[:60] for _, words in WRONG])
def test_a_breach_is_refused_in_words(body, words):
    error = refusal(body)
    assert words in error.why
    assert "Vendor breaks the platform contract (SRTPlatform) in one place" in error.what
    assert "extra_public_names" in error.fix
    assert isinstance(error, TypeError)


@pytest.mark.parametrize("body", RIGHT, ids=[", ".join(body) for body in RIGHT])
def test_what_the_contract_allows_passes(body):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert issubclass(platform(body), SRTPlatform)


def test_every_problem_is_listed_at_once_with_its_place():
    with pytest.raises(ContractError) as caught:

        class Vendor(SRTPlatform):
            device_type = "cuda:1"

            def get_graph_runner(self): ...

            @functools.lru_cache  # noqa: B019
            def get_device_name(self): ...

            class Nested: ...

    error = caught.value
    assert "in 4 places" in error.what
    source = Path(HERE).read_text().splitlines()
    for line in error.why.splitlines():
        name = line.split()[1]
        found = re.search(rf"\({re.escape(HERE)}:(\d+)\)$", line)
        assert found, line
        text = source[int(found[1]) - 1]
        assert name in text or "lru_cache" in text, (line, text)


def test_a_class_without_source_names_its_module_and_the_statement():
    namespace = {"SRTPlatform": SRTPlatform, "__name__": "vendor_without_source"}
    with pytest.raises(ContractError, match=r"LIMIT is not a name of the contract \(<made>:1\)"):
        exec(compile("class V(SRTPlatform): LIMIT = 3", "<made>", "exec"), namespace)


@given(st.sampled_from(sorted(public_names(SRTPlatform))), st.integers(0, 30), st.sampled_from("abcdefghij_"))
def test_a_name_with_one_letter_more_is_refused_with_the_right_spelling(name, place, letter):
    place = min(place, len(name))
    misspelt = name[:place] + letter + name[place:]
    if misspelt.startswith("_") or misspelt in public_names(SRTPlatform) | {row.old for row in older_names()}:
        return
    error = refusal({misspelt: a_method})
    offered = re.search(r"did you mean (.*)\? \(", error.why)
    # Two names of the contract can be about as near, e.g. is_cpu and is_npu.
    assert offered, error.why
    if len(name) > 12:
        assert offered[1] == name


@given(st.text(alphabet="abcxyz_0123", min_size=1, max_size=12).map(lambda tail: "_" + tail))
def test_private_names_are_free(name):
    assert platform({name: 3 if name != "_enum" else PlatformEnum.OOT})


def test_a_device_mixin_may_carry_names_of_both_runtimes():
    class Shared(DeviceMixin):
        def get_dispatch_key_name(self):
            return "board"

        def optimize_vae(self, vae):
            return vae

        def get_kv_pool_cls(self, *, kind): ...

    assert platform({}, (Shared, SRTPlatform))().get_dispatch_key_name() == "board"
    assert platform({}, (Shared, MMPlatform))().get_dispatch_key_name() == "board"


def test_a_device_mixin_is_checked_on_its_own():
    error = refusal({"get_device_uid": a_method}, (DeviceMixin,))
    assert "did you mean get_device_uuid?" in error.why
    assert "(DeviceMixin)" in error.what


def test_a_plain_mixin_is_checked_when_it_joins():
    class Helpers:
        def get_graf_runner_cls(self): ...

    class Harmless:
        _cache = None

        def get_dispatch_key_name(self):
            return "board"

    error = refusal({}, (Helpers, SRTPlatform))
    assert (
        "get_graf_runner_cls is not a name of the contract, did you mean get_graph_runner_cls?" in error.why
    )
    assert "test_contract_checks.py:" in error.why
    assert platform({}, (Harmless, SRTPlatform))().get_dispatch_key_name() == "board"


def test_extra_names_of_all_bases_count_together():
    class Device(DeviceMixin):
        extra_public_names = frozenset({"topology"})

        def topology(self): ...

    class Vendor(SRTPlatform, Device):
        extra_public_names = frozenset({"dump"})

        def dump(self): ...

        def topology(self): ...

    class More(Vendor):
        def dump(self): ...

    assert public_names(More) == public_names(SRTPlatform)


def test_standard_library_bases_are_left_alone():
    import threading

    assert platform({}, (SRTPlatform, threading.local))


@pytest.mark.parametrize("mixin_base", [object, DeviceMixin])
def test_an_override_that_is_never_reached_is_refused(mixin_base):
    class Mixin(mixin_base):
        def get_dispatch_key_name(self):
            return "board"

    error = refusal({}, (SRTPlatform, Mixin))
    assert (
        "Mixin.get_dispatch_key_name is never reached: SRTPlatform defines it too and stands before it; "
        "put Mixin first in the bases of Vendor"
    ) in error.why
    assert platform({}, (Mixin, SRTPlatform))
    # Answered by the class itself, the hidden one is no loss.
    assert platform({"get_dispatch_key_name": lambda self: "x"}, (SRTPlatform, Mixin))


def test_an_identity_that_is_never_reached_is_refused():
    class Plain:
        _enum = PlatformEnum.OOT
        device_type = "board"

    error = refusal({}, (SRTPlatform, Plain))
    assert "Plain._enum is never reached" in error.why
    assert "Plain.device_type is never reached" in error.why
    assert platform({}, (Plain, SRTPlatform))().is_out_of_tree()


def test_a_class_that_the_host_adapter_derives_is_left_alone():
    class Host:
        def host_only(self):
            return "host"

    marked = type("Rebased", (SRTPlatform, Host), {"_rebased_by_host": True, "unknown_here": a_method})
    assert marked().host_only() == "host"

    class ByKeyword(SRTPlatform, Host, rebased_by_host=True):
        unknown_here = 3

    assert ByKeyword._rebased_by_host is True
    # The mark holds for the class that carries it, not for what a vendor derives.
    with pytest.raises(ContractError, match="frobnicate"):
        type("Vendor", (ByKeyword,), {"frobnicate": a_method})


def test_class_keywords_reach_a_vendors_own_init_subclass():
    seen = []

    class Registering:
        def __init_subclass__(cls, *, board=None, **kwargs):
            super().__init_subclass__(**kwargs)
            seen.append((cls.__name__, board))

    class Vendor(SRTPlatform, Registering, board="v7"):
        pass

    assert seen == [("Vendor", "v7")]
