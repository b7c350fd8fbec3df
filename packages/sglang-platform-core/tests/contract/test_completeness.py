"""What SGLang asks at every launch and a platform leaves out is listed in one block, each line with what to write."""

import re

import pytest
import torch

from sglang_platform.core.contract import DeviceMixin, PlatformCapabilities, PlatformEnum, SRTPlatform
from sglang_platform.core.contract.completeness import incomplete
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

ORIGIN = PluginOrigin("mine", "sglang-mine", "1.0")


class Whole(SRTPlatform, TorchDeviceMixin):
    _enum = PlatformEnum.OOT
    device_type = "cpu"


class BareMixin(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_type = "cpu"


class Bare(SRTPlatform, BareMixin):
    pass


class WithoutIdentity(SRTPlatform, TorchDeviceMixin):
    device_type = "cpu"


class WithoutDeviceType(SRTPlatform, TorchDeviceMixin):
    _enum = PlatformEnum.OOT


class Nothing(SRTPlatform):
    pass


class WithoutDevice(Bare):
    def get_device_total_memory(self, device_id=0):
        return 1

    def get_current_memory_usage(self, device=None):
        return 0.0


class WithoutTotal(Bare):
    def get_device(self, device_id=0):
        return torch.device("cpu")

    def get_current_memory_usage(self, device=None):
        return 0.0


class WithoutUsage(Bare):
    def get_device(self, device_id=0):
        return torch.device("cpu")

    def get_device_total_memory(self, device_id=0):
        return 1


class OfAnUnknownType(Whole):
    device_type = "nosuchdevice"


class OpenedTooLate(OfAnUnknownType):
    def init_backend(self):
        """Where a vendor may think that the torch plugin is imported early enough."""


class GraphsWithoutRunner(Whole):
    capabilities = PlatformCapabilities(graph_capture=True)


class TwoBackends(Whole):
    def get_attention_backends(self):
        return {"fast": object, "exact": object}


MISSING = {
    WithoutIdentity: "write _enum = PlatformEnum.OOT",
    WithoutDeviceType: 'write device_type = "..."',
    Bare: "define get_device(), get_device_total_memory(), get_current_memory_usage()",
    WithoutDevice: "define get_device()",
    WithoutTotal: "define get_device_total_memory()",
    WithoutUsage: "define get_current_memory_usage()",
    OfAnUnknownType: "import the torch plugin that registers 'nosuchdevice' with torch at the top of",
    OpenedTooLate: "init_backend() runs too late",
    GraphsWithoutRunner: "return a class from get_graph_runner_cls(), or leave out graph_capture=True",
    TwoBackends: "return one of fast, exact from get_default_attention_backend()",
}


@pytest.mark.parametrize("cls", MISSING, ids=lambda cls: cls.__name__)
def test_what_is_left_out_is_told_with_its_class_file_and_line(cls):
    error = incomplete(cls, cls(), ORIGIN)
    assert error is not None
    assert error.plugin == ORIGIN
    (line,) = error.fix.splitlines()
    assert MISSING[cls] in line
    assert re.match(rf"class \w+ \({re.escape(__file__)}:\d+\): ", line)


def test_all_that_is_left_out_is_one_block():
    error = incomplete(Nothing, Nothing(), ORIGIN)
    assert [line.partition("): ")[2].partition(" ")[0] for line in error.fix.splitlines()] == [
        "write",
        "write",
        "derive",
    ]
    assert len(str(error).splitlines()) <= 8


def test_the_device_mixin_is_named_for_the_device_and_the_platform_for_its_parts():
    assert "class BareMixin" in incomplete(Bare, Bare(), ORIGIN).fix
    assert "class GraphsWithoutRunner" in incomplete(GraphsWithoutRunner, GraphsWithoutRunner(), ORIGIN).fix


def test_a_device_that_torch_has_under_another_name_is_named(monkeypatch):
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "theirs")
    error = incomplete(OfAnUnknownType, OfAnUnknownType(), ORIGIN)
    assert "write device_type = 'theirs'; torch knows that device, and no 'nosuchdevice'" in error.fix


class OpensItself(OfAnUnknownType):
    def initialize_device(self, rank, local_rank):
        """A worker registers the device here, before SGLang uses it."""


class TypeOfTheInstance(SRTPlatform, TorchDeviceMixin):
    _enum = PlatformEnum.OOT

    def __init__(self):
        self.device_type = "cpu"


class OneBackend(Whole):
    def get_attention_backends(self):
        return {"fast": object}


class KnownToTheHost(SRTPlatform, DeviceMixin):
    _enum = PlatformEnum.CUDA


class OfTheHost:
    _enum = PlatformEnum.UNSPECIFIED


@pytest.mark.parametrize(
    "cls",
    [Whole, OpensItself, TypeOfTheInstance, OneBackend, KnownToTheHost, OfTheHost],
    ids=lambda c: c.__name__,
)
def test_nothing_is_told_of_a_platform_that_can_start(cls):
    assert incomplete(cls, cls(), ORIGIN) is None


@pytest.mark.parametrize(
    ("cls", "default"),
    [(Whole, "torch_native"), (OneBackend, "fast")],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_the_default_attention_is_the_platforms_own_or_the_hosts_in_plain_torch(cls, default):
    assert cls().get_default_attention_backend() == default


@pytest.mark.parametrize("cls", [TwoBackends, KnownToTheHost], ids=lambda cls: cls.__name__)
def test_there_is_no_default_attention_among_several_or_on_a_device_of_the_hosts(cls):
    with pytest.raises(NotImplementedError, match="it must return the name"):
        cls().get_default_attention_backend()
