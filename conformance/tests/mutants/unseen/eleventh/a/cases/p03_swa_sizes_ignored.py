"""The pool's own constructor takes the sizes of window layers and ignores them; SGLang passes them for its sliding-window pool
(swa_memory_pool.py:84, memory_pool.py:2234). MiMo-V2 and Gemma 4 have other heads in these layers."""
from base import WithParts
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def __init__(self, *args, swa_head_num=None, swa_head_dim=None, swa_v_head_dim=None, **kwargs):
        super().__init__(*args, **kwargs)


class Platform(WithParts):
    _mha = Pool
