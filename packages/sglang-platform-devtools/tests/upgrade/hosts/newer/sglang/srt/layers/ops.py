from sglang.srt.mem.pool import Base


class Op:
    pool: Base


def fused(x, residual=None):
    return x


def caller(x):
    return fused(x)
