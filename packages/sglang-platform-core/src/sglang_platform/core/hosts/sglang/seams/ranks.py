"""How many devices a launch takes, against how many there are.

SGLang counts them on CUDA alone; elsewhere a worker whose device is missing dies with whatever its runtime says.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hosts.sglang.seams.server_args import register_rule
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["devices_needed", "register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For out-of-tree devices of a type of their own; on `cpu` all ranks share one."""
    if platform.is_out_of_tree() and platform.device_type not in ("cpu", "cuda"):
        register_rule(platform, lambda server_args: _refuse_more_than_there_are(server_args, platform, host))


def devices_needed(server_args: Any) -> int:
    """The devices that this node's workers take: one each, from `base_gpu_id` in steps of `gpu_id_step`."""
    ranks = server_args.tp_size * server_args.pp_size
    if not server_args.enable_dp_attention:  # there the data-parallel ranks are tensor-parallel ones
        ranks *= server_args.dp_size
    here = -(-ranks // server_args.nnodes)
    return int(server_args.base_gpu_id + (here - 1) * server_args.gpu_id_step + 1)


def _refuse_more_than_there_are(server_args: Any, platform: Any, host: HostFacts) -> None:
    import torch  # the host has it by now; a launcher that only lists platforms does not

    module = torch.get_device_module(platform.device_type)
    there, needed = int(module.device_count()), devices_needed(server_args)
    if needed <= there:
        return
    sizes = {name: getattr(server_args, name) for name in ("tp_size", "pp_size", "dp_size", "nnodes")}
    told = ", ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
    raise LaunchRefused(
        f"the launch takes {needed} devices of this machine, and the platform {platform.device_name!r} has {there}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"{told or 'base_gpu_id'}: SGLang {host.version} (managers/scheduler.py) gives each worker a device of its "
        "own",
        fix="ask for fewer ranks, or run on more nodes (--nnodes)",
    )
