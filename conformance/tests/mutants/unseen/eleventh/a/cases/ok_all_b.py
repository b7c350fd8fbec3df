"""ok2 and ok3 in one platform."""
import ok2_head_major as a, ok3_declarations as b


class Platform(b.Platform):
    def get_kv_pool_cls(self, *, kind):
        return a.Pool if kind == "mha" else super().get_kv_pool_cls(kind=kind)
