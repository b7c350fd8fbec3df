"""Level 2 mutants: platforms whose class, declarations or factories are wrong."""

from __future__ import annotations

from typing import Any

from mutant import mutant

from sglang_platform.conformance.reference.device import ReferenceDevice
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import PlatformCapabilities, PlatformEnum, SRTPlatform


@mutant(
    check="contract.platform_is_created",
    defect="__init__ asks for a driver that is not loaded, and raises",
    says="could not be instantiated",
)
class RaisesInInit(ReferencePlatform):
    def __init__(self) -> None:
        raise OSError("libdriver.so: cannot open shared object file")


@mutant(
    check="contract.identity_agrees_with_enum",
    defect="is_cuda_alike() is overridden to True, to get at kernels: the host then imports its CUDA extensions",
    says="is_cuda_alike",
)
class ClaimsToBeCudaAlike(ReferencePlatform):
    def is_cuda_alike(self) -> bool:
        return True


@mutant(
    check="contract.identity_agrees_with_enum",
    defect="_enum was never set, so the device is nothing to the host",
    says="_enum",
)
class NoIdentity(ReferencePlatform):
    _enum = PlatformEnum.UNSPECIFIED


@mutant(
    check="contract.device_is_named",
    defect="device_type is the vendor's own word for its device, which torch does not know",
    says="torch knows no such device",
)
class UnknownDeviceType(ReferencePlatform):
    device_type = "mychip"


class _OwnBase(SRTPlatform):
    device_name = "from the vendor's own platform base"

    def get_default_attention_backend(self) -> str:
        return "torch_native"


@mutant(
    check="contract.both_base_orders_work",
    defect="the vendor's platform base and its device mixin define the same name: the order of the bases decides",
    says="device_name comes from",
)
class DependsOnBaseOrder(_OwnBase, ReferenceDevice):
    pass


@mutant(
    check="contract.declarations_are_understood",
    defect="an attention feature is misspelt: it is neither tested nor offered",
    says="sliding_window",
)
class MisspeltFeature(ReferencePlatform):
    @property  # depends on the device: so the class statement cannot be told that it is wrong
    def attention_features(self) -> Any:  # type: ignore[override]
        return ("mha", "gqa", "sliding-window")


@mutant(
    check="contract.declarations_are_understood",
    defect="KV dtypes are declared by another library's names",
    says="bf16",
)
class OtherDtypeNames(ReferencePlatform):
    @property
    def supported_kv_dtypes(self) -> Any:  # type: ignore[override]
        return ("bf16",)


@mutant(
    check="contract.declarations_are_understood",
    defect="8-bit KV types are declared, and capabilities say that the device has none",
    says="capabilities.fp8",
)
class Fp8KvWithoutFp8(ReferencePlatform):
    capabilities = PlatformCapabilities(graph_capture=True)


@mutant(
    check="contract.factories_answer_with_classes",
    defect="a factory answers with an instance instead of the class",
    says="an instance of",
)
class AnswersWithInstance(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator

        return object.__new__(ReferencePagedAllocator)


@mutant(
    check="contract.factories_answer_with_classes",
    defect="a factory answers with the place of the class, as activate() does",
    says="the text",
)
class AnswersWithText(ReferencePlatform):
    def get_graph_runner_cls(self) -> Any:
        return "my_platform.graph_runner:MyGraphRunner"


@mutant(
    check="contract.factories_answer_with_classes",
    defect="a factory defines its class anew on each call, so isinstance fails between two answers",
    says="another class of that name",
)
class NewClassEachTime(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        from sglang_platform.conformance.reference.allocator import ReferencePagedAllocator

        class Tuned(ReferencePagedAllocator):
            pass

        return Tuned


@mutant(
    check="contract.factories_answer_with_classes",
    defect="NotImplementedError without a reason: the operator sees an empty message",
    says="without a reason",
)
class RefusesWithoutReason(ReferencePlatform):
    def get_piecewise_backend_cls(self) -> Any:
        raise NotImplementedError


@mutant(
    check="contract.kv_kinds_are_served",
    defect="the kind mla is declared, and the factory knows mha only",
    says="'mla'",
)
class DeclaredKindIsAbsent(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return super().get_kv_pool_cls(kind=kind) if kind == "mha" else None


@mutant(
    check="contract.kv_kinds_are_served",
    defect="the MHA pool is answered for every kind",
    says="MLATokenToKVPool",
)
class OnePoolForAllKinds(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return super().get_kv_pool_cls(kind="mha")


@mutant(
    check="contract.kv_kinds_are_served",
    defect="a pool of a kind that is not declared is answered: it is used, and never tested",
    says="not in supported_kv_kinds",
)
class AnswersUndeclaredKind(ReferencePlatform):
    supported_kv_kinds = ("mha",)


@mutant(
    check="contract.graph_capture_has_a_runner",
    defect="graph_capture is claimed without a runner: SGLang stops the launch",
    says="graph_capture is True",
)
class GraphsWithoutRunner(ReferencePlatform):
    def get_graph_runner_cls(self) -> Any:
        return None


@mutant(
    check="contract.graph_capture_has_a_runner",
    defect="a runner is brought and graph_capture forgotten: decoding goes eager, and nobody notices",
    says="graph_capture is False",
)
class RunnerWithoutCapability(ReferencePlatform):
    capabilities = PlatformCapabilities(fp8=True)


@mutant(
    check="contract.choices_are_in_form",
    defect="capabilities depend on how often they were read (lazy initialisation in the property)",
    says="read again",
)
class CapabilitiesChange(ReferencePlatform):
    _read = 0

    @property
    def capabilities(self) -> PlatformCapabilities:  # type: ignore[override]
        type(self)._read += 1
        return PlatformCapabilities(graph_capture=self._read > 1, fp8=True)


@mutant(
    check="contract.answers_can_be_used",
    defect="the default attention backend is a name that neither the platform nor the host registers",
    says="my_flash",
)
class UnknownDefaultBackend(ReferencePlatform):
    def get_default_attention_backend(self) -> str:
        return "my_flash"


@mutant(
    check="contract.choices_are_in_form",
    defect="the dispatch key is None where the vendor meant plain torch",
    says="get_dispatch_key_name",
)
class NoDispatchKey(ReferencePlatform):
    def get_dispatch_key_name(self) -> Any:
        return None


@mutant(
    check="contract.registered_ops_are_dispatched",
    defect="fused ops are registered under another key than the one the platform dispatches to: they never run",
    says="never called",
)
class OpsUnderAnotherKey(ReferencePlatform):
    def get_dispatch_key_name(self) -> str:
        return "native"
