class EnvBool:
    def __init__(self, default):
        self.default = default


class Envs:
    SGLANG_SAME = EnvBool(False)
    SGLANG_FLIPPED = EnvBool(True)


class DeprecatedName:
    def __init__(self, replacement):
        self.replacement = replacement


DEPRECATED = {"SGLANG_FORMER": DeprecatedName(replacement="SGLANG_LATTER")}
GROUP = "sglang.srt.plugins"
