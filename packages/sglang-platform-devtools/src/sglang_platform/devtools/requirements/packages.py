"""The packages that SGLang's metadata names, with the devices that can use each. One that is missing here is unknown.

A package is CUDA's where SGLang's own lists for CPU, NPU and ROCm leave it out and its wheels hold code for CUDA.
"""

from __future__ import annotations

__all__ = ["CUDA_ONLY", "PORTABLE", "TORCH_EXTENSIONS", "TORCH_FAMILY", "TRITON"]

CUDA_ONLY = {
    "cuda-python": "bindings of the CUDA driver",
    "cuda-tile": "NVIDIA's compiler of tile kernels",
    "flash-attn-4": "attention kernels for NVIDIA GPUs",
    "flashinfer-cubin": "compiled CUDA kernels",
    "flashinfer-python": "CUDA kernels",
    "humming-kernels": "quantised CUDA kernels",
    "nvidia-cutlass-dsl": "a compiler of CUDA kernels",
    "nvidia-mathdx": "device libraries of CUDA",
    "nvshmem4py-cu13": "communication between NVIDIA GPUs",
    "quack-kernels": "kernels for NVIDIA GPUs, compiled by nvidia-cutlass-dsl",
    "sgl-deep-ep": "communication of experts between NVIDIA GPUs",
    "sgl-deep-gemm": "CUDA kernels",
    "sgl-flash-mla": "CUDA kernels",
    "sgl-kernel": "SGLang's CUDA kernels",
    "sglang-kernel": "SGLang's CUDA kernels",
    "st-attn": "CUDA kernels",
    "tilelang": "a compiler of kernels; SGLang's are for NVIDIA and AMD GPUs, and AMD's images bring their own build",
    "tokenspeed-mla": "kernels for NVIDIA GPUs",
    "torch-memory-saver": "it replaces the allocator of CUDA",
    "vsa": "CUDA kernels",
}
"""Name: why no other device can use it."""

TORCH_FAMILY = ("torch", "torchvision")
"""Built for one device: CUDA on the package index. SGLang imports both at start."""

TORCH_EXTENSIONS = {
    "torchaudio": "its C++ part loads in one build of torch only; models that hear need the build of your torch",
    "torchcodec": "its C++ part loads in one build of torch only; models that see videos need the build of your torch",
}
"""Name: why a device with a torch of its own goes without it. SGLang imports each where a model needs it."""

TRITON = ("triton", "SGLang imports it, and only torch's build for CUDA brings it")

PORTABLE = frozenset(
    [
        "addict", "aiohttp", "anthropic", "apache-tvm-ffi", "av", "blobfile", "build", "cache-dit",
        "checkpoint-engine", "cloudpickle", "compressed-tensors", "datasets", "decord2",
        "deepseek-recipe", "diffusers", "distro", "easydict", "einops", "fastapi", "fastokens", "gguf",
        "granian", "hf-transfer", "huggingface-hub", "imageio", "imageio-ffmpeg", "instanttensor",
        "interegular", "ipython", "kernels", "llguidance", "loguru", "mistral-common", "modelscope",
        "moviepy", "msgpack", "msgspec", "ninja", "numba", "numpy", "nvidia-ml-py", "nvidia-modelopt",
        "openai", "openai-harmony", "opencv-python-headless", "opentelemetry-api",
        "opentelemetry-exporter-otlp", "opentelemetry-exporter-otlp-proto-grpc", "opentelemetry-sdk",
        "orjson", "outlines", "packaging", "partial-json-parser", "pillow", "prometheus-client",
        "psutil", "py-spy", "pybase64", "pydantic", "python-dateutil", "python-multipart", "pyyaml",
        "pyzmq", "ray", "regex", "remote-pdb", "requests", "runai-model-streamer", "scikit-image",
        "scipy", "sentencepiece", "setproctitle", "smg-grpc-servicer", "soundfile", "termcolor",
        "tiktoken", "timm", "tml-renderers", "tokenizers", "tomli", "torchao", "tqdm", "transformers",
        "trimesh", "uvicorn", "uvloop", "watchfiles", "websockets", "xatlas", "xgrammar", "xxhash",
        "zstandard",
    ]
)  # fmt: skip
"""Packages that run beside any device."""
