"""Mutants of a platform for the diffusion runtime: one distribution with a healthy platform for the LLM runtime."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed, mutant
from plugins import HEALTHY, NAME, PACKAGE, write_plugin

_MM = (HEALTHY / "diffusion.py").read_text()

_ATTENTION = (HEALTHY / "attention.py").read_text()


def plugin(
    folder: Path,
    mm: tuple[str, str] = ("", ""),
    attention: tuple[str, str] = ("", ""),
    *,
    name: str = NAME,
    added: str = "",
) -> Installed:
    """The healthy plugin, with one piece of the platform's or the attention's text replaced by another."""
    points = (
        f"[sglang.srt.platforms]\n{name} = {PACKAGE}:activate\n"
        f"[sglang.multimodal_gen.platforms]\n{name} = {PACKAGE}.mm:activate\n"
    )
    for text, (old, _) in ((_MM, mm), (_ATTENTION, attention)):
        assert old in text, f"the text has no {old!r}"
    files = {
        f"{PACKAGE}/mm.py": _MM.replace(*mm, 1) + added if mm[0] else _MM + added,
        f"{PACKAGE}/mm_attention.py": _ATTENTION.replace(*attention, 1) if attention[0] else _ATTENTION,
    }
    contract = f"[sglang_platform.contract]\n{name} = v1\n"
    installed = write_plugin(folder, entry_points=points, contract=contract, files=files)
    return Installed(name, installed.environment)


_CREATED = "contract.diffusion_platform_is_created"
_DEVICE = "contract.diffusion_device_is_the_llm_device"
_ANSWERS = "contract.diffusion_answers_are_usable"
_NAMED = "contract.diffusion_attention_is_named"
_AGREES = "kernels.diffusion_attention_agrees_with_float64"
_PROMPTS = "kernels.diffusion_prompts_take_less_time"
_APART = "kernels.diffusion_packed_sequences_are_apart"


@mutant(
    check=_CREATED,
    defect="the platform says it is CUDA, which this host takes from itself only",
    says="_enum CUDA",
)
def diffusion_platform_in_tree(folder: Path) -> Installed:
    return plugin(
        folder, ('    dispatch_key = "CPU"\n', '    dispatch_key = "CPU"\n    _enum = PlatformEnum.CUDA\n')
    )


@mutant(check=_CREATED, defect="the entry point has the name of a platform of the host's own", says="xpu")
def diffusion_name_is_reserved(folder: Path) -> Installed:
    return plugin(folder, name="xpu")


@mutant(
    check=_CREATED,
    defect="the platform still writes a method of the LLM runtime's contract",
    says="get_kv_pool_cls",
)
def diffusion_name_of_the_other_runtime(folder: Path) -> Installed:
    return plugin(folder, added="\n    def get_kv_pool_cls(self, *, kind):\n        return None\n")


@mutant(check=_CREATED, defect="the answer lost the parameter dtype", says="dtype")
def diffusion_signature_drifted(folder: Path) -> Installed:
    added = "\n    def get_compile_backend(self):\n        return 'eager'\n"
    return plugin(
        folder, ("selected_backend, head_size, dtype):", "selected_backend, head_size):"), added=added
    )


@mutant(check=_DEVICE, defect="the diffusion platform has a device name of its own", says="device_name")
def diffusion_device_of_its_own(folder: Path) -> Installed:
    return plugin(folder, ('"CPU"\n', '"CPU"\n    device_name = "mutant-mm"\n'))


@mutant(check=_DEVICE, defect="the unique id is drawn anew in each runtime", says="get_device_uuid")
def diffusion_uuid_of_its_own(folder: Path) -> Installed:
    return plugin(folder, added="\n    def get_device_uuid(self, device_id=0):\n        return 'mm-0'\n")


@mutant(check=_ANSWERS, defect="the dispatcher key is the device's name", says="dispatcher key")
def diffusion_dispatch_key_is_the_device_name(folder: Path) -> Installed:
    return plugin(folder, ('dispatch_key = "CPU"', 'dispatch_key = "mutant"'))


@mutant(check=_ANSWERS, defect="the behavioural dispatch key is empty", says="get_dispatch_key_name")
def diffusion_dispatch_key_name_is_empty(folder: Path) -> Installed:
    return plugin(folder, added="\n    def get_dispatch_key_name(self):\n        return ''\n")


@mutant(check=_ANSWERS, defect="the compile backend is misspelled", says="inductr")
def diffusion_compile_backend_misspelled(folder: Path) -> Installed:
    return plugin(folder, added="\n    simple_compile_backend = 'inductr'\n")


@mutant(check=_ANSWERS, defect="free memory is in bytes", says="GiB")
def diffusion_memory_in_bytes(folder: Path) -> Installed:
    return plugin(
        folder,
        added="\n    def get_available_gpu_memory(self, device_id=None, distributed=False, empty_cache=True, "
        "cpu_group=None):\n        return float(self.get_available_memory(device_id or 0)[0])\n",
    )


@mutant(
    check=_ANSWERS,
    defect="the VAE hook changes the module in place and forgets to return it",
    says="optimize_vae",
)
def diffusion_vae_hook_returns_nothing(folder: Path) -> Installed:
    return plugin(folder, added="\n    def optimize_vae(self, vae):\n        vae.eval()\n")


@mutant(check=_NAMED, defect="the named class was renamed in its module", says="cannot be imported")
def diffusion_attention_names_nothing(folder: Path) -> Installed:
    return plugin(folder, ("mm_attention.Attention", "mm_attention.MutantAttention"))


@mutant(check=_NAMED, defect="any backend asked for gets the device's own, in silence", says="nobody has")
def diffusion_attention_replaces_what_was_asked(folder: Path) -> Installed:
    return plugin(folder, ("if selected_backend is None:", "if True:"))


@mutant(check=_AGREES, defect="the layer's softmax scale is ignored", says="and must be")
def diffusion_attention_own_scale(folder: Path) -> Installed:
    return plugin(folder, attention=("* self.softmax_scale", "* self.head_size**-0.5"))


@mutant(check=_AGREES, defect="grouped heads read the wrong key head", says="and must be")
def diffusion_attention_wrong_group(folder: Path) -> Installed:
    return plugin(folder, attention=("k.repeat_interleave(group, 1)", "k.repeat(1, group, 1, 1)"))


@mutant(
    check=_AGREES,
    defect="the causal mask starts at key 0 where there are more keys than queries",
    says="and must be",
)
def diffusion_attention_mask_top_left(folder: Path) -> Installed:
    return plugin(folder, attention=("triu(columns - rows + 1)", "triu(1)"))


@mutant(check=_AGREES, defect="scores are kept in bfloat16", says="and must be")
def diffusion_attention_low_precision(folder: Path) -> Installed:
    return plugin(
        folder,
        attention=(
            "q.float() @ k.float().transpose(2, 3)",
            "(q.bfloat16() @ k.bfloat16().transpose(2, 3)).float()",
        ),
    )


@mutant(check=_AGREES, defect="of more than 8,192 keys the last are left out", says="and must be")
def diffusion_attention_keys_of_one_launch(folder: Path) -> Installed:
    return plugin(
        folder,
        attention=(
            "query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)",
            "query.transpose(1, 2), key[:, :8192].transpose(1, 2), value[:, :8192].transpose(1, 2)",
        ),
    )


@mutant(
    check=_AGREES,
    defect="values of a prompt are kept by the shape of its keys and their first",
    says="and must be",
)
def diffusion_attention_values_of_the_prompt_before(folder: Path) -> Installed:
    kept = (
        "        group = self.num_heads // self.num_kv_heads\n"
        "        at = (tuple(k.shape), float(k.flatten()[0]))\n"
        "        v = self.__dict__.setdefault('_values', {}).setdefault(at, v)\n"
    )
    return plugin(folder, attention=("        group = self.num_heads // self.num_kv_heads\n", kept))


@mutant(check=_APART, defect="packed sequences are computed as one", says="sequence")
def diffusion_packed_as_one(folder: Path) -> Installed:
    whole = (
        "    def forward_varlen(self, query, key, value, *, cu_seqlens, max_seqlen, cu_seqlens_host=None):\n"
        "        return self.forward(query[None], key[None], value[None], None)[0]\n\n    def forward(self, query"
    )
    return plugin(folder, attention=("    def forward(self, query", whole))


@mutant(check=_APART, defect="the last packed sequence is left out", says="sequence")
def diffusion_packed_last_is_lost(folder: Path) -> Installed:
    short = (
        "    def forward_varlen(self, query, key, value, *, cu_seqlens, max_seqlen, cu_seqlens_host=None):\n"
        "        return super().forward_varlen(query, key, value, cu_seqlens=cu_seqlens[:-1],\n"
        "                                      max_seqlen=max_seqlen)\n\n    def forward(self, query"
    )
    return plugin(folder, attention=("    def forward(self, query", short))


@mutant(
    check=_PROMPTS,
    defect="keys of a prompt are filled up to as many as there are queries, and masked",
    says="times as long",
)
def diffusion_attention_fills_a_prompt_up(folder: Path) -> Installed:
    filled = (
        "        keys, missing = k.shape[2], max(q.shape[2] - k.shape[2], 0)\n"
        "        k, v = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (k, v))\n"
        "        scores = q.float() @ k.float().transpose(2, 3) * self.softmax_scale\n"
        "        scores[..., keys:] = float('-inf')\n"
    )
    whole = "        scores = q.float() @ k.float().transpose(2, 3) * self.softmax_scale\n"
    return plugin(folder, attention=(whole, filled))
