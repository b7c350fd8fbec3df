"""The feature of the host that a module belongs to, by its place in the tree."""

from __future__ import annotations

__all__ = ["feature_of"]

_DIFFUSION, _KERNELS, _TOOLS = "diffusion", "kernels", "tools"

_SERVED = {
    "batch_invariant_ops": "deterministic inference", "batch_overlap": "batch overlap",
    "checkpoint_engine": "weights", "compilation": "graphs", "configs": "configuration",
    "constrained": "structured output", "arg_groups": "configuration", "server_args": "configuration",
    "debug_utils": _TOOLS, "disaggregation": "disaggregation", "distributed": "distributed",
    "dllm": "diffusion language models", "elastic_ep": "moe", "entrypoints": "serving", "eplb": "moe",
    "hardware_backend": "other devices", "kv_canary": "mem_cache", "lora": "lora", "managers": "scheduling",
    "mem_cache": "mem_cache", "model_executor": "model execution", "model_loader": "weights", "models": "models",
    "multimodal": "multimodal", "multiplex": "scheduling", "observability": "observability",
    "platforms": "platforms", "sampling": "sampling", "session": "scheduling", "speculative": "speculative",
    "utils": "utilities", "weight_cache": "weights", "weight_sync": "weights", "metrics": "observability",
    "two_batch_overlap": "batch overlap", "single_batch_overlap": "batch overlap", "tokenizer": "serving",
}  # fmt: skip
"""Folders and files below `srt`."""

_LAYERS = {
    "attention": "attention", "quantization": "quantization", "moe": "moe", "communication": "distributed",
    "cp": "distributed", "dcp": "distributed", "dp_attention": "distributed", "communicator": "distributed",
    "deep_gemm_wrapper": "quantization", "sampler": "sampling", "rotary_embedding": "layers",
    "flashinfer_comm_fusion": "distributed", "radix_attention": "attention", "modelopt_utils": "quantization",
    "torchao_utils": "quantization", "int4fp8_utils": "quantization", "logits_processor": "sampling",
}  # fmt: skip
"""Folders and files below `srt/layers`."""

_KERNEL_FAMILIES = {
    "attention": "attention", "communication": "distributed", "diffusion": _DIFFUSION, "grammar": "structured output",
    "kv_canary": "mem_cache", "kvcache": "mem_cache", "memory": "mem_cache", "lora": "lora", "mamba": "attention",
    "mm": "multimodal", "moe": "moe", "lplb": "moe", "quantization": "quantization", "gemm": "quantization",
    "sampling": "sampling", "speculative": "speculative", "fla": "attention",
}  # fmt: skip
"""The kernel families in `kernels/ops`, or `jit_kernel` in older releases."""


def feature_of(module: str) -> str:
    """One or two words derived from the folder. All tools and benchmarks count as one feature."""
    parts = module.split(".")[1:]
    match parts:
        case ["multimodal_gen", "benchmarks" | "tools" | "apps", *_]:
            return _TOOLS
        case ["multimodal_gen", *_]:
            return _DIFFUSION
        case ["kernels", "ops", family, *_] | ["jit_kernel", family, *_]:
            return _KERNEL_FAMILIES.get(family, _KERNELS)
        case ["kernels" | "jit_kernel", *_]:
            return _KERNELS
        case ["srt", "layers", part, *_]:
            return _LAYERS.get(part, "layers")
        case ["srt", part, *_]:
            return _SERVED.get(part, part.replace("_", " "))
    return _TOOLS
