class EnvBool:
    def __init__(self, default):
        self.default = default


class Envs:
    SGLANG_SAME = EnvBool(False)
    SGLANG_FLIPPED = EnvBool(True)


GROUP = "sglang.srt.plugins"
