"""Healthy. Core's own TorchGroupCommunicator, unchanged, carries the groups.

Permitted: docs/parts.md (`communicator`: "serves through torch.distributed"); it is what core's TorchSRTPlatform answers.
level: distributed
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    def get_communicator_class(self) -> type | None:
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        return TorchGroupCommunicator
