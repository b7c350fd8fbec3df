"""What a plugin sets or reads by a text: variables of the environment, flags, names of parts."""
# ruff: noqa
# fmt: off

import os

from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.server_args import ServerArgs

os.environ.setdefault("SGLANG_NSA_FUSE_TOPK", "0")  # environment: SGLANG_NSA_FUSE_TOPK
os.environ.setdefault("SGLANG_SPEC_NAN_DETECTION", "0")  # environment: SGLANG_SPEC_NAN_DETECTION
os.environ.setdefault("SGLANG_SORT_WEIGHT_FILES", "0")  # environment: SGLANG_SORT_WEIGHT_FILES
os.environ.setdefault("SGLANG_ENABLE_SPEC_V2", "0")  # environment: SGLANG_ENABLE_SPEC_V2
os.environ.setdefault("SGLANG_SWA_EVICTION_INTERVAL_MULTIPLIER", "1")  # environment: SGLANG_SWA_EVICTION_INTERVAL_MULTIPLIER
os.environ.setdefault("SGLANG_USE_FUSED_METADATA_COPY", "0")  # environment: SGLANG_USE_FUSED_METADATA_COPY
os.environ.setdefault("SGLANG_OPT_FLASHMLA_SPARSE_PREFILL", "0")  # environment: SGLANG_OPT_FLASHMLA_SPARSE_PREFILL
os.environ.setdefault("SGLANG_ENABLE_GRPC", "0")  # environment: SGLANG_ENABLE_GRPC
os.environ.setdefault("SGLANG_USE_IPC_POOL_HANDLE_CACHE", "0")  # environment: SGLANG_USE_IPC_POOL_HANDLE_CACHE
os.environ.setdefault("SGLANG_CUTLASS_MOE", "0")  # environment: SGLANG_CUTLASS_MOE
os.environ.setdefault("SGLANG_AUTO_NUMA_BIND", "0")  # environment: SGLANG_AUTO_NUMA_BIND
os.environ.setdefault("SGLANG_ENABLE_CP_V2", "0")  # environment: SGLANG_ENABLE_CP_V2
os.environ.setdefault("SGLANG_EXPERIMENTAL_CPP_RADIX_TREE", "0")  # environment: SGLANG_EXPERIMENTAL_CPP_RADIX_TREE
os.environ.setdefault("SGLANG_FLASHINFER_MOE_FUSED_FINALIZE", "0")  # environment: SGLANG_FLASHINFER_MOE_FUSED_FINALIZE
os.environ.setdefault("SGLANG_HACK_FLASHMLA_BACKEND", "auto")  # environment: SGLANG_HACK_FLASHMLA_BACKEND
os.environ.setdefault("SGLANG_SIMULATE_ACC_GREEDY", "0")  # environment: SGLANG_SIMULATE_ACC_GREEDY
os.environ.setdefault("SGLANG_USE_MODELSCOPE", "0")  # environment: SGLANG_USE_MODELSCOPE
os.environ.setdefault("SGLANG_LOG_MS", "0")  # environment: SGLANG_LOG_MS

FLAGS = [
    "--record-nolora-graph",  # argument: record_nolora_graph
    "--enable-nan-detection",  # argument: enable_nan_detection
    "--nsa-prefill-backend",  # argument: nsa_prefill_backend
    "--mamba-scheduler-strategy",  # argument: mamba_scheduler_strategy
    "--cuda-graph-max-bs",  # argument: cuda_graph_max_bs
    "--disable-piecewise-cuda-graph",  # argument: disable_piecewise_cuda_graph
    "--enforce-piecewise-cuda-graph",  # argument: enforce_piecewise_cuda_graph
    "--debug-tensor-dump-inject",  # argument: debug_tensor_dump_inject
    "--grpc-http-sidecar-port",  # argument: grpc_http_sidecar_port
    "--enable-deepep-waterfill",  # argument: enable_deepep_waterfill
    "--optimistic-prefill-retries",  # argument: optimistic_prefill_retries
    "--torchao-config",  # argument: torchao_config
    "--keep-mm-feature-on-device",  # argument: keep_mm_feature_on_device
    "--elastic-ep-rejoin",  # argument: elastic_ep_rejoin
    "--speculative-skip-dp-mlp-sync",  # argument: speculative_skip_dp_mlp_sync
    "--attention-backend",  # argument: attention_backend
    "--page-size",  # argument: page_size
]


def names(server_args: ServerArgs):
    if server_args.quantization == "qoq":  # name: QUANTIZATION_CHOICES qoq
        return
    if server_args.quantization == "marlin":  # name: QUANTIZATION_CHOICES marlin
        return
    if server_args.quantization == "awq":  # name: QUANTIZATION_CHOICES awq
        return
    if server_args.attention_backend == "cutlass_mla":  # name: ATTENTION_BACKEND_CHOICES cutlass_mla
        return
    if server_args.attention_backend == "dual_chunk_flash_attn":  # name: ATTENTION_BACKEND_CHOICES dual_chunk_flash_attn
        return
    if server_args.attention_backend == "triton":  # name: ATTENTION_BACKEND_CHOICES triton
        return
    if server_args.attention_backend == "flashinfer":  # name: ATTENTION_BACKEND_CHOICES flashinfer
        return
    server_args.fp4_gemm_runner_backend = "cutlass"  # name: FP4_GEMM_RUNNER_BACKEND_CHOICES cutlass
    server_args.attention_backend = "fa3"  # name: ATTENTION_BACKEND_CHOICES fa3
    server_args.grammar_backend = "xgrammar"  # name: GRAMMAR_BACKEND_CHOICES xgrammar
    server_args.load_format = "auto"  # name: LOAD_FORMAT_CHOICES auto
    ServerArgs(model_path="m", attention_backend="cutlass_mla")  # name: ATTENTION_BACKEND_CHOICES cutlass_mla
    ServerArgs(model_path="m", quantization="marlin")  # name: QUANTIZATION_CHOICES marlin
    return ATTENTION_BACKENDS["tokenspeed_mla"]  # name: register_attention_backend tokenspeed_mla
