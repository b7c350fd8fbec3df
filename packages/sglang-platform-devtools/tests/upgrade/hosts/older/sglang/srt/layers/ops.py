from sglang.srt.mem.pool import Base


class Op:
    pool: Base


def fused(x, residual=None):
    return x


def moved(x):
    return x


def left_out(x):
    return fused(x) + moved(x)
