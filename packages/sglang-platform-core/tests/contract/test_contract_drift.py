# Overrides take the contract's parameters, whether they use them or not.

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.contract import (
    DeviceMixin,
    MMPlatform,
    PlatformCapabilities,
    PlatformEnum,
    SRTPlatform,
)
from sglang_platform.core.contract.bridges import older_methods
from sglang_platform.core.contract.drift import TABLE, older_names
from sglang_platform.core.contract.drift_rows import BecameField, BecameKind, ChangedSignature, Renamed
from sglang_platform.core.contract.members import members_for
from sglang_platform.core.errors import ContractError

OLDER_NAMES = older_names()
SIGNATURES = [row for row in TABLE if isinstance(row, ChangedSignature)]
POOLS = [row for row in OLDER_NAMES if isinstance(row, BecameKind)]
FLAGS = [row for row in OLDER_NAMES if isinstance(row, BecameField)]
KINDS = ["mha", "mla", "dsa"]


class Pool:
    pass


def bridged_names(cls):
    """The older names and forms through which `cls` answers."""
    values = [value for klass in cls.__mro__ for value in vars(klass).values()]
    return tuple(sorted({name for value in values for name in getattr(value, "_serves_older_names", ())}))


def make(body, bases=(SRTPlatform,), name="Vendor"):
    """The class, and the deprecation warnings that making it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cls = type(name, bases, dict(body))
    assert all(w.category is DeprecationWarning for w in caught)
    return cls, [str(w.message) for w in caught]


def pools(cls):
    return {kind: cls().get_kv_pool_cls(kind=kind) for kind in KINDS}


@pytest.mark.parametrize("row", POOLS, ids=lambda row: row.old)
def test_an_older_pool_method_answers_for_its_kind(row):
    cls, said = make({row.old: lambda self: Pool})
    assert pools(cls) == {kind: Pool if kind == row.kind else None for kind in KINDS}
    assert cls().get_kv_pool_cls(kind="nsa") is (Pool if row.kind == "dsa" else None)
    assert len(said) == 1
    assert row.old in said[0]
    assert row.new in said[0]
    assert bridged_names(cls) == (row.old,)


@pytest.mark.parametrize("row", FLAGS, ids=lambda row: row.old)
@pytest.mark.parametrize("answer", [True, False])
def test_an_older_flag_answers_for_its_capability(row, answer):
    cls, said = make({row.old: lambda self: answer})
    assert cls().capabilities == PlatformCapabilities(**{row.field: answer})
    assert len(said) == 1
    assert row.old in said[0]
    assert row.new in said[0]
    assert bridged_names(cls) == (row.old,)


def test_pin_memory_without_an_argument_takes_one():
    cls, said = make({"is_pin_memory_available": lambda self: True})
    assert cls().is_pin_memory_available() is True
    assert cls().is_pin_memory_available("cpu") is True
    assert cls().is_pin_memory_available(device=None) is True
    assert len(said) == 1
    assert "is_pin_memory_available(self, device=None)" in said[0]


@pytest.mark.parametrize("parameters", ["local_rank", "local_rank=0"])
def test_get_device_by_local_rank_takes_a_device_id(parameters):
    cls, said = make({"get_device": eval(f"lambda self, {parameters}: ('device', local_rank)")})
    assert cls().get_device() == ("device", 0)
    assert cls().get_device(3) == cls().get_device(device_id=3) == ("device", 3)
    assert len(said) == 1
    assert "get_device(self, device_id=0)" in said[0]


def test_every_row_has_a_test_here():
    assert {row.old for row in SIGNATURES} == {"is_pin_memory_available", "get_device"}
    kinds = {type(row) for row in OLDER_NAMES}
    assert {BecameKind, BecameField} <= kinds <= {BecameKind, BecameField, Renamed}


def test_the_table_names_nothing_that_the_contract_has():
    members = members_for(SRTPlatform)
    assert not {row.old for row in OLDER_NAMES} & set(members)
    assert {row.member for row in TABLE} <= set(members)
    assert {row.field for row in FLAGS} <= set(PlatformCapabilities.__dataclass_fields__)


def test_the_warning_points_at_the_older_method(tmp_path):
    import importlib.util

    path = tmp_path / "older_vendor.py"
    path.write_text(
        "from sglang_platform.core.contract import SRTPlatform\n\n\nclass Vendor(SRTPlatform):\n"
        "    device_name = 'v'\n\n    def supports_fp8(self):\n        return True\n"
    )
    spec = importlib.util.spec_from_file_location("older_vendor", path)
    with pytest.warns(DeprecationWarning, match="capabilities.fp8") as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert [(w.filename, w.lineno) for w in caught] == [(str(path), 7)]


def test_a_platform_written_for_the_first_release_is_served_whole():
    class Device(DeviceMixin):
        _enum = PlatformEnum.OOT

    cls, said = make(
        {
            "get_mha_kv_pool_cls": lambda self: Pool,
            "get_mla_kv_pool_cls": lambda self: (_ for _ in ()).throw(NotImplementedError("no MLA here")),
            "get_nsa_kv_pool_cls": lambda self: None,
            "support_cuda_graph": lambda self: self.is_out_of_tree(),
            "support_piecewise_cuda_graph": lambda self: False,
            "supports_fp8": lambda self: 1,
            "is_pin_memory_available": lambda self: True,
        },
        (SRTPlatform, Device),
    )
    platform = cls()
    assert platform.get_kv_pool_cls(kind="mha") is Pool
    with pytest.raises(NotImplementedError, match="no MLA here"):
        platform.get_kv_pool_cls(kind="mla")
    assert platform.get_kv_pool_cls(kind="dsa") is None
    with pytest.raises(ValueError, match="not a kind"):
        platform.get_kv_pool_cls(kind="mba")
    assert platform.capabilities == PlatformCapabilities(graph_capture=True, fp8=True)
    assert platform.is_pin_memory_available("cpu") is True
    assert len(said) == 7


def test_the_two_older_names_of_one_kind_agree_on_the_later():
    cls, said = make({"get_nsa_kv_pool_cls": lambda self: None, "get_dsa_kv_pool_cls": lambda self: Pool})
    assert pools(cls)["dsa"] is Pool
    assert len(said) == 2


def test_of_two_older_names_for_one_kind_the_more_derived_wins():
    class Plain:
        def get_dsa_kv_pool_cls(self):
            return None

    cls, _ = make({"get_nsa_kv_pool_cls": lambda self: Pool}, (Plain, SRTPlatform))
    assert pools(cls)["dsa"] is Pool


def test_a_subclass_that_adds_nothing_is_not_warned_about_again():
    cls, _ = make({row.old: lambda self: Pool for row in OLDER_NAMES})
    derived, said = make({}, (cls,))
    assert said == []
    assert pools(derived) == dict.fromkeys(KINDS, Pool)
    assert derived().capabilities == cls().capabilities
    assert bridged_names(derived) == tuple(sorted(row.old for row in OLDER_NAMES))


def test_flags_add_to_the_capabilities_behind_them():
    base, _ = make({"capabilities": PlatformCapabilities(supports_triton=True, graph_capture=True)})
    cls, _ = make({"support_cuda_graph": lambda self: False, "supports_fp8": lambda self: True}, (base,))
    assert cls().capabilities == PlatformCapabilities(supports_triton=True, fp8=True)


def test_an_instance_may_set_its_capabilities():
    cls, _ = make({"supports_fp8": lambda self: True})
    platform = cls()
    platform.capabilities = PlatformCapabilities(supports_pynccl=True)
    assert platform.capabilities == PlatformCapabilities(supports_pynccl=True)


def test_a_class_cannot_answer_for_its_instances():
    cls, _ = make({"supports_fp8": lambda self: True})
    assert not isinstance(cls.capabilities, PlatformCapabilities)


def test_a_flag_may_depend_on_the_instance():
    cls, _ = make({"supports_fp8": lambda self: self.device_name == "newer"})
    older, newer = cls(), cls()
    newer.device_name = "newer"
    assert (older.capabilities.fp8, newer.capabilities.fp8) == (False, True)


@pytest.mark.parametrize("row", OLDER_NAMES, ids=lambda row: row.old)
def test_both_in_one_class_reads_todays_and_says_so(row):
    todays = {"get_kv_pool_cls": lambda self, *, kind: Pool, "capabilities": PlatformCapabilities(fp8=True)}
    today = todays.get(row.member) or getattr(SRTPlatform, row.member)
    cls, said = make({row.old: lambda self: 3, row.member: today})
    assert pools(cls)["mha"] in (Pool, None)
    assert cls().capabilities.graph_capture is False
    assert len(said) == 1
    assert f"{row.old}() is an older name and is not read, because Vendor defines {row.member}" in said[0]
    assert make({}, (cls,))[1] == []


def test_a_mixin_may_bring_older_names_in_either_order():
    class Plain:
        def get_mha_kv_pool_cls(self):
            return Pool

    class Device(DeviceMixin):
        def support_cuda_graph(self):
            return True

    for bases in [(SRTPlatform, Device, Plain), (Plain, Device, SRTPlatform)]:
        cls, said = make({}, bases)
        assert pools(cls)["mha"] is Pool
        assert cls().capabilities.graph_capture
        assert len(said) == 2


def test_a_plain_mixin_with_older_parameters_is_served_and_left_as_it_is():
    class Plain:
        def is_pin_memory_available(self):
            return True

    cls, said = make({}, (Plain, SRTPlatform))
    assert cls().is_pin_memory_available("cpu") is True
    assert len(said) == 1
    with pytest.raises(TypeError):
        Plain().is_pin_memory_available("cpu")


def test_todays_form_in_the_class_hides_a_mixins_older_one():
    class Plain:
        def is_pin_memory_available(self):
            return True

    cls, said = make({"is_pin_memory_available": lambda self, device=None: device}, (Plain, SRTPlatform))
    assert cls().is_pin_memory_available("board") == "board"
    assert said == []


def test_older_names_are_no_names_of_the_diffusion_runtime():
    with pytest.raises(ContractError, match="support_cuda_graph is not a name of the contract"):
        make({"support_cuda_graph": lambda self: True}, (MMPlatform,))


def todays_method(answers):
    """A `get_kv_pool_cls` with these answers that asks `super()` for the rest, and a list to put its class
    in."""
    own_class = []

    def get_kv_pool_cls(self, *, kind):
        return answers[kind] if kind in answers else super(own_class[0], self).get_kv_pool_cls(kind=kind)

    return get_kv_pool_cls, own_class


# One class per layer, each answering some kinds in the older or in today's way.
LAYER = st.dictionaries(st.sampled_from(KINDS), st.sampled_from(["older", "today"]), max_size=3)


@given(st.lists(LAYER, min_size=1, max_size=4))
def test_the_most_derived_answer_wins_whichever_generation_wrote_it(layers):
    cls, expected = SRTPlatform, dict.fromkeys(KINDS)
    for depth, layer in enumerate(layers):
        older = {kind for kind, how in layer.items() if how == "older"}
        today = {kind for kind, how in layer.items() if how == "today"}
        answers = {kind: (depth, kind) for kind in (today or older)}

        body = {}
        if today:
            # A class that has both reads today's, so the older ones beside it do not count.
            body["get_kv_pool_cls"], own_class = todays_method(answers)
        else:
            for kind in older:
                body[f"get_{kind}_kv_pool_cls"] = lambda self, answer=answers[kind]: answer
        cls, _ = make(body, (cls,), f"Layer{depth}")
        if today:
            own_class.append(cls)
        expected.update(answers)
    assert pools(cls) == expected


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("0.5.11", {"get_mha_kv_pool_cls", "get_mla_kv_pool_cls", "get_nsa_kv_pool_cls"}),
        ("0.5.12.post1", {"get_mha_kv_pool_cls", "get_mla_kv_pool_cls", "get_nsa_kv_pool_cls"}),
        ("0.5.13", {"get_mha_kv_pool_cls", "get_mla_kv_pool_cls", "get_dsa_kv_pool_cls"}),
        ("0.5.21", {"get_mha_kv_pool_cls", "get_mla_kv_pool_cls", "get_dsa_kv_pool_cls"}),
        ("0.5.22", None),
        ("0.5.23", None),
    ],
)
def test_an_older_host_finds_the_names_it_calls(version, names):
    flags = {row.old for row in FLAGS}
    expected = names | flags if names else set()
    if version < "0.5.13":
        expected |= {"get_device"}  # called with `local_rank`
    assert set(older_methods(version)) == expected


def test_an_older_host_is_answered_from_todays_names():
    class Vendor(SRTPlatform):
        capabilities = PlatformCapabilities(graph_capture=True)

        def get_kv_pool_cls(self, *, kind):
            return Pool if kind == "dsa" else None

    for version in ("0.5.11", "0.5.20"):
        hosted = type("Hosted", (Vendor,), {**older_methods(version), "_rebased_by_host": True})()
        later = "nsa" if version == "0.5.11" else "dsa"
        assert getattr(hosted, f"get_{later}_kv_pool_cls")() is Pool
        assert hosted.get_mha_kv_pool_cls() is None
        assert hosted.support_cuda_graph() is True
        assert hosted.support_piecewise_cuda_graph() is False


def test_an_older_host_may_have_an_older_vendor_too():
    vendor, _ = make({row.old: (lambda self: Pool) for row in OLDER_NAMES})
    hosted = type("Hosted", (vendor,), {**older_methods("0.5.12"), "_rebased_by_host": True})()
    assert hosted.get_nsa_kv_pool_cls() is hosted.get_kv_pool_cls(kind="dsa") is Pool
    assert hosted.supports_fp8() is hosted.capabilities.fp8 is True
