"""SGLang's own query reads CUDA's; ours is written over it in its module and in the package that re-exports it."""

import torch_basalt


def get_available_gpu_memory(device, gpu_id, distributed=False, empty_cache=True, cpu_group=None):
    free, _ = torch_basalt.mem_get_info(gpu_id)
    return free / (1 << 30)


def patch_memory_report():
    import sglang.srt.utils
    import sglang.srt.utils.common as common

    common.get_available_gpu_memory = get_available_gpu_memory
    sglang.srt.utils.get_available_gpu_memory = get_available_gpu_memory
