class EnvBool:
    def __init__(self, default):
        self.default = default


class Envs:
    SGLANG_OLD = EnvBool(False)
    SGLANG_SAME = EnvBool(False)
    SGLANG_FLIPPED = EnvBool(False)
    SGLANG_FORMER = EnvBool(False)


GROUP = "sglang.srt.plugins"
