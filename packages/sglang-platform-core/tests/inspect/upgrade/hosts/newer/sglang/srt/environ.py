class Envs:
    SGLANG_SAME = EnvBool(False)
    SGLANG_FLIPPED = EnvBool(True)


GROUP = "sglang.srt.plugins"
