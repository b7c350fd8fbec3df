"""verify_quantization() answers False for a method that the device cannot run, and does not raise.

For the user: --quantization awq is accepted; the model loads and fails, or answers nonsense, much later.
Follows: a predicate taken for a check. The contract: "Raises ValueError where the device cannot run the method".
level: contract
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    supported_quantization = ["fp8"]

    def verify_quantization(self, quant: str) -> bool:  # type: ignore[override]
        return quant in self.supported_quantization
