"""Show without the suite that each broken platform differs from the reference, and that each healthy one does not.

python fires.py NAME... (default: all), in one process; collectives run in three forked ones.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace as S

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "cases"))

import torch
import torch.distributed as dist

torch.set_num_threads(1)

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp, HookRegistry
from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS as RIGHT

REF = ReferencePlatform()


def platform(name):
    return importlib.import_module(name).Platform()


def close(a, b, tol=1e-4):
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(close(x, y, tol) for x, y in zip(a, b))
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.double(), rtol=tol, atol=tol)


def forward(p, op):
    p.init_backend()
    return FusedOp._registry[op, p.get_dispatch_key_name()].forward


def rnd(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


RMS = dict(variance_size_override=None, override_orig_dtype=None, fp32_residual=False, cast_x_before_out_mul=False, variance_epsilon=1e-6)


def differ(p, op, calls, tol=1e-3):
    """`calls`: argument makers, each with whether the call must be right on the broken one too."""
    mine = forward(p, op)
    got = [mine(*make()) for make, _ in calls]
    theirs = forward(REF, op)
    want = [theirs(*make()) for make, _ in calls]
    same = [close(g, w, tol) for g, w in zip(got, want)]
    for one, (_, right) in zip(same, calls):
        assert one or not right, "differs where it should not"
    return not all(same)


def rope_op(rotary, head=32, neox=True, **more):
    angles = torch.arange(128)[:, None] * (10000.0 ** -(torch.arange(rotary // 2) / (rotary // 2)))
    return S(cos_sin_cache=torch.cat([angles.cos(), angles.sin()], -1), head_size=head, rotary_dim=rotary, is_neox_style=neox, **more)


def b01(p):
    def args(h):
        return lambda: (S(weight=rnd(h, seed=1), **RMS), rnd(7, h))
    return differ(p, "RMSNorm", [(args(768), True), (args(769), False)])


def b02(p):
    def args(r):
        return lambda: (rope_op(r), torch.arange(5) + 3, rnd(5, 4 * 32), rnd(5, 2 * 32, seed=2))
    return differ(p, "RotaryEmbedding", [(args(32), True), (args(16), True), (args(24), False)])


def b03(p):
    def args(t):
        return lambda: (S(weight=rnd(32, seed=1), eps=1e-6), rnd(t, 256).split([128, 64, 64], -1)[0].unflatten(-1, (4, 32)))
    return differ(p, "Gemma3RMSNorm", [(args(1), True), (args(5), False)])


def b04(p):
    outlier = rnd(3, 64)
    outlier[1, 5] = 100.0
    return differ(p, "SiluAndMul", [(lambda: (None, rnd(3, 64) * 10), True), (lambda: (None, outlier.clone()), False)])


def b05(p):
    def args(e, k):
        c = S(top_k=k, renormalize=True, use_grouped_topk=False, correction_bias=None, custom_routing_function=None, scoring_func="softmax")
        return lambda: (None, rnd(6, 16), rnd(6, e, seed=3), c)
    return differ(p, "TopK", [(args(64, 8), True), (args(128, 4), True), (args(128, 8), False)])


def moe_args(t, e=4, k=2, h=16, i=8, dtype=torch.float32):
    c = S(activation="silu", is_gated=True, no_combine=False, gemm1_alpha=None, gemm1_clamp_limit=None, swiglu_limit=None, apply_router_weight_on_input=False)
    layer = S(w13_weight=rnd(e, 2 * i, h, seed=4, dtype=dtype), w2_weight=rnd(e, h, i, seed=5, dtype=dtype))
    weights, ids = rnd(t, e, seed=6).softmax(-1).topk(k)
    ids = ids.to(torch.int32)
    ids[0, 0] = -1
    return lambda: (S(with_bias=False), layer, rnd(t, h, dtype=dtype), weights, ids, c)


def b06(p):
    return differ(p, "UnquantizedFusedMoEMethod", [(moe_args(128), True), (moe_args(150), False)])


def b07(p):
    def args(a):
        return lambda: (S(approximate=a), rnd(4, 64) * 2)
    return differ(p, "GeluAndMul", [(args("tanh"), True), (args("none"), False)], tol=1e-5)


def b08(p):
    pos = torch.stack([torch.full((5,), 10), torch.arange(5) * 7, torch.arange(5) * 3 + 40])

    def args(section):
        op = rope_op(2 * sum(section), head=64, mrope_section=section, mrope_interleaved=True)
        return lambda: (op, pos, rnd(5, 2 * 64), rnd(5, 64, seed=2))
    return differ(p, "MRotaryEmbedding", [(args([8, 8, 8]), True), (args([12, 10, 10]), False)])


def b09(p):
    op = S(weight=rnd(64, seed=1), bias=rnd(64, seed=2), variance_epsilon=1e-6, elementwise_affine=True, use_bias=True, dtype=torch.float32)
    return differ(p, "LayerNorm", [(lambda: (op, rnd(4, 64)), True), (lambda: (op, rnd(4, 64) + 3000), False)], tol=1e-2)


def state_kernel(p, name, args, kw, place, tol=1e-4):
    """Answers and states of one call; `place` of the states in args."""
    out = []
    for kernel in (p.get_state_kernels()[name], RIGHT[name]):
        copy = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        y = kernel(*copy, **kw)
        out.append((y, copy[place]))
    (y, s), (y2, s2) = out
    y, y2 = ((v[0] if isinstance(v, tuple) else v) for v in (y, y2))
    return close(y, y2, tol), close(s, s2, tol)


def b10(p):
    base = (rnd(3, 8), rnd(8, 4, seed=1), None, None)
    states = rnd(6, 8, 3, seed=2)
    assert all(state_kernel(p, "short_convolution", (*base, torch.tensor([1, 0, 4]), None, states), dict(silu=True), 6))
    y, s = state_kernel(p, "short_convolution", (*base, torch.tensor([1, 0, -1]), None, states), dict(silu=True), 6)
    return y and not s


def b11(p):
    def run(t):
        starts = torch.tensor([0, t], dtype=torch.int32)
        args = (rnd(t, 2, 8), rnd(t, 2, 8, seed=1), rnd(t, 4, 8, seed=2), -rnd(t, 4, seed=3).abs() * 0.05, rnd(t, 4, seed=4).sigmoid(), starts, torch.tensor([1]), rnd(3, 4, 8, 8, seed=5))
        return state_kernel(p, "gated_delta_rule", args, dict(scale=0.35), 7)
    assert all(run(64)) and all(run(50)) and all(run(128))
    y, s = run(100)
    return y and not s


def b12(p):
    kw = dict(epsilon=1e-6, activation="silu", group_size=None, gate_first=False)
    kernel = p.get_state_kernels()["gated_rms_norm"]
    first = kernel(rnd(4, 16), rnd(4, 16, seed=1), None, **kw)
    kept = first.clone()
    kernel(rnd(4, 16, seed=7), rnd(4, 16, seed=8), None, **kw)
    return close(kept, RIGHT["gated_rms_norm"](rnd(4, 16), rnd(4, 16, seed=1), None, **kw)) and not close(first, kept)


def b13(p):
    def run(dtype, tol):
        t, starts = 400, torch.tensor([0, 400], dtype=torch.int32)
        args = (rnd(t, 2, 4).abs(), torch.full((t, 2), 0.01), -torch.ones(2) * 0.01, rnd(t, 1, 8, seed=1).abs(), rnd(t, 1, 8, seed=2), None, starts, torch.tensor([1]), torch.full((3, 2, 4, 8), 8.0).to(dtype))
        return state_kernel(p, "state_space", args, {}, 8, tol)
    assert all(run(torch.float32, 1e-3))
    return not all(run(torch.bfloat16, 5e-2))


def b14(p):
    fn = p.get_speculative_cache_locs_fn()

    def ask(rows):
        table = torch.arange(200, dtype=torch.int32).view(4, 50)
        rows = torch.tensor(rows)
        starts = torch.full_like(rows, 10)
        got = fn(req_pool_indices=rows, req_to_token=table, start_offset=starts, end_offset=starts + 4, batch_size=len(rows), draft_token_num=4, device="cpu")
        want = torch.cat([table[r, 10:14] for r in rows]).clone()
        assert got.tolist() == want.tolist()
        table[:, 10:14] = 0
        return got.tolist() == want.tolist()
    assert ask([2, 1])
    return not ask([2])


def b15(p):
    # Other programs allocate and free here too, so the reference's figure must change, by whatever it is.
    mine, theirs = set(), set()
    for count in (1, 100_000_000, 300_000_000):
        held = torch.ones(count)
        mine.add(p.get_available_memory(0)[0])
        theirs.add(REF.get_available_memory(0)[0])
        del held
    return len(mine) == 1 and len(theirs) > 1


def b16(p):
    code = "print(hash(('reference', 7)) & 0xffffffff)"
    values = {subprocess.run([sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONHASHSEED": s}, capture_output=True, text=True).stdout for s in ("1", "2")}
    REF.seed_everything(7)
    want = torch.rand(4)
    p.seed_everything(7)
    return len(values) == 2 and not torch.equal(torch.rand(4), want)


def b17(p):
    def uuid_after_failure(one):
        before = one.get_device_uuid(0)
        try:
            with one.reindex_device_id(1):
                raise RuntimeError("a worker did not start")
        except RuntimeError:
            pass
        return one.get_device_uuid(0) == before
    with p.reindex_device_id(1):
        pass
    right, wrong = uuid_after_failure(REF), not uuid_after_failure(p)
    os.environ.pop("REFERENCE_VISIBLE_DEVICES", None)
    return right and wrong


def b18(p):
    def nested(one):
        with one.inference_mode():
            with one.inference_mode():
                inner = torch.is_inference_mode_enabled()
        return inner, torch.is_inference_mode_enabled()

    with ThreadPoolExecutor(1) as thread:  # the mode is the thread's
        right = thread.submit(nested, REF).result()
        wrong = thread.submit(nested, p).result()
    return right == (True, False) and wrong == (False, True)


def b19(p):
    p.verify_quantization("fp8")
    try:
        p.verify_quantization("awq")
    except ValueError:
        return False
    return "awq" not in p.supported_quantization


def b20(p):
    from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
    mask = torch.tensor([[-1, -1, -1]], dtype=torch.int32)
    mine, theirs = rnd(1, 90), rnd(1, 90)
    p.get_token_bitmask_fn()(mine, mask)
    apply_token_bitmask_(theirs, mask)
    return not torch.equal(mine, theirs) and bool(torch.isinf(mine[0, 31]))


def dist_module(name, module=""):
    sys.path.insert(0, str(HERE / "dists" / name))
    from importlib.metadata import distribution
    assert distribution(f"acme-{name}").entry_points
    return importlib.import_module(f"acme_{name}{module}")


def b21(p):
    from sglang_platform.core import PlatformUnavailable
    before = dict(os.environ)
    plugin = dist_module("b21")
    try:
        plugin.activate()
    except PlatformUnavailable:
        pass
    changed = os.environ.get("CUDA_VISIBLE_DEVICES") == "" and before.get("CUDA_VISIBLE_DEVICES") != ""
    os.environ.clear()
    os.environ.update(before)
    return changed


def b22(p):
    plugin = dist_module("b22")
    os.environ["ACME_B22"] = "1"
    first, second = plugin.activate(), plugin.activate()
    cls = importlib.import_module("acme_b22.platform").AcmePlatform
    return first is not None and second is None and cls().get_device_name() == REF.get_device_name()


def b23(p):
    with HookRegistry.collecting() as hooks:
        p.init_backend()
    (hook,) = [one.hook for one in hooks]
    return hook(lambda device, gpu_id: 12.5, "cpu", 0) is None


def b24(p):
    from sglang_platform.core.registries import quant
    p.init_backend()

    class LinearBase:
        pass

    class Method:
        def apply(self, layer, x):
            return x
    method = quant.wrap(LinearBase(), Method(), None)
    x = rnd(2, 16)
    fired = type(method).__name__ == "EightBits" and not torch.equal(method.apply(None, x), x)
    experts = dist_module("b24", ".experts")
    return fired and experts.wanted(LinearBase(), None) is not None


def b28(p):
    def run(module, sq, sk):
        mm = module.DiffusionPlatform()
        cls = mm.get_attn_backend(None, 8, torch.float32)
        q, k, v = rnd(1, sq, 4, 8), rnd(1, sk, 2, 8, seed=1), rnd(1, sk, 2, 8, seed=2)
        got = cls(num_heads=4, head_size=8, softmax_scale=0.35, causal=True, num_kv_heads=2).forward(q, k, v, None)
        kk, vv = k.repeat_interleave(2, 2), v.repeat_interleave(2, 2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, kk) * 0.35
        seen = torch.arange(sk) <= torch.arange(sq)[:, None] + sk - sq
        want = torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), vv)
        return close(got, want)
    modules = importlib.import_module("b28"), dist_module("b28", ".diffusion")
    assert all(run(one, 6, 6) for one in modules)
    return not any(run(one, 6, 9) for one in modules)


# Collectives: each function runs on three ranks and answers whether all was right.

def built(name, group):
    cls = (REF if name == "reference" else platform(name)).get_communicator_class()
    return cls(cpu_group=group, device=torch.device("cpu"), device_group=group, unique_name="tp:0")


def small_sums_live(name, world, pair):
    one = built(name, world)
    rank = dist.get_rank()
    first = one.all_reduce(torch.full((4, 8), float(rank)))
    one.all_reduce(torch.full((4, 8), 100.0))
    return bool((first == 3).all())


def second_group_broadcasts(name, world, pair):
    if dist.get_rank() == 0:
        return True
    one = built(name, pair)
    try:
        return bool((one.broadcast(torch.full((3,), float(dist.get_rank())), src=0) == 1).all())
    except ValueError:
        return False


def uneven_scatter(name, world, pair):
    one, rank, sizes = built(name, world), dist.get_rank(), [1, 4, 2]
    got = one.reduce_scatterv(torch.arange(7.0)[:, None].expand(7, 3) + rank, sizes=sizes)
    return close(got, (torch.arange(7.0)[:, None].expand(7, 3) * 3 + 3).split(sizes)[rank])


def as_reference(name, world, pair):
    rank, results = dist.get_rank(), []
    for which in ("reference", name):
        for group in (world, pair):
            if group is pair and rank == 0:
                continue
            one = built(which, group)
            if getattr(one, "disabled", False):
                results.append("disabled")
                continue
            n, r = dist.get_world_size(group), dist.get_rank(group)
            x = rnd(n * 2, 6, seed=rank)
            out = {}
            for verb, call in {
                "all_reduce": lambda: one.all_reduce(x.clone()),
                "half": lambda: one.all_reduce(x.to(torch.bfloat16)).float(),
                "all_gather": lambda: one.all_gather(x, dim=-1),
                "all_gather_into_tensor": lambda: (o := x.new_empty(n * n * 2, 6), one.all_gather_into_tensor(o, x))[0],
                "reduce_scatter_tensor": lambda: (o := x.new_empty(2, 6), one.reduce_scatter_tensor(o, x.clone()))[0],
                "gather": lambda: one.gather(x, dst=1, dim=0),
                "broadcast": lambda: one.broadcast(x.clone(), src=1),
                "all_to_all_single": lambda: (o := torch.empty_like(x), one.all_to_all_single(o, x))[0],
                "all_gatherv": lambda: one.all_gatherv(x[: r + 1], sizes=list(range(1, n + 1))),
                "reduce_scatterv": lambda: one.reduce_scatterv(x.clone(), sizes=[1] * (n - 1) + [n + 1]),
            }.items():
                if verb == "half" or hasattr(type(one), verb):
                    out[verb] = call()
            results.append(out)
    half = len(results) // 2
    for want, got in zip(results[:half], results[half:]):
        if got == "disabled":
            continue
        for verb, y in got.items():
            if (y is None) != (want[verb] is None) or (y is not None and not close(y, want[verb], 5e-2 if verb == "half" else 1e-4)):
                print(name, verb, "differs", flush=True)
                return False
    return True


COLLECTIVE = {"b25": small_sums_live, "b26": second_group_broadcasts, "b27": uneven_scatter, "ok1": as_reference, "ok2": as_reference, "ok3": as_reference, "ok4": as_reference}


def _rank(rank, store, names, queue):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3, timeout=timedelta(seconds=60))
    world = dist.group.WORLD
    pair = dist.new_group([1, 2])
    for name in names:
        for which in ("reference", name):
            try:
                answer = COLLECTIVE[name](which, world, pair)
            except Exception:
                traceback.print_exc()
                answer = None
            queue.put((name, which == name, rank, answer))
    queue.put(None)
    dist.barrier()


def collectives(names):
    store = tempfile.mktemp(dir=HERE, prefix=".store")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    ranks = [context.Process(target=_rank, args=(r, store, names, queue), daemon=True) for r in range(3)]
    for one in ranks:
        one.start()
    answers, ended = {}, 0
    while ended < 3:
        row = queue.get(timeout=150)
        if row is None:
            ended += 1
        else:
            answers.setdefault(row[:2], []).append(row[3])
    for one in ranks:
        one.join(20)
    Path(store).unlink(missing_ok=True)
    return answers


# Healthy

def agrees(p, op, makes, tol=1e-3, key=None):
    mine = forward(p, op)
    got = [mine(*make()) for make in makes]
    theirs = forward(REF, op)
    return all(g is NotImplemented or close(g, theirs(*make()), tol) for g, make in zip(got, makes)) and any(g is not NotImplemented for g in got)


def topk_sorted(p):
    c = S(top_k=4, renormalize=True, use_grouped_topk=False, correction_bias=None, custom_routing_function=None, scoring_func="softmax")
    for renormalize in (True, False):
        c.renormalize = renormalize
        answers = []
        for one in (p, REF):
            w, i = forward(one, "TopK")(None, None, rnd(6, 32, seed=3), c)
            order = i.argsort(-1)
            answers.append((w.gather(1, order), i.gather(1, order)))
        if not close(*answers):
            return False
    return True


def norm_args(residual, dtype=torch.float32):
    return lambda: (S(weight=rnd(48, seed=1, dtype=dtype), **RMS), rnd(5, 48, dtype=dtype), *([rnd(5, 48, seed=2, dtype=dtype)] if residual else []))


def ok5(p):
    norms = [norm_args(r, d) for r in (0, 1) for d in (torch.float32, torch.bfloat16, torch.float16)]
    return (
        agrees(p, "RMSNorm", norms, 2e-2)
        and agrees(p, "SiluAndMul", [lambda: (None, rnd(3, 64) * 50), lambda: (None, rnd(3, 2, 64))], 1e-4)
        and agrees(p, "UnquantizedFusedMoEMethod", [moe_args(9), moe_args(9, dtype=torch.bfloat16)], 2e-2)
        and topk_sorted(p)
    )


def ok6(p):
    return agrees(p, "RMSNorm", [norm_args(0), norm_args(1)]) and agrees(
        p, "RotaryEmbedding", [lambda: (rope_op(24), torch.arange(5), rnd(5, 128), rnd(5, 64, seed=2))]
    )


def ok7(p):
    dist_module("ok7")
    os.environ["ACME_OK7"] = "1"
    found = importlib.import_module("acme_ok7").activate()
    module, _, cls = found.partition(":")
    ours = getattr(importlib.import_module(module), cls)()
    for one in (p, ours):
        with HookRegistry.collecting() as hooks:
            one.init_backend()
        assert [h.required for h in hooks] == [False]
        assert set(one.supported_page_sizes) == set(REF.supported_page_sizes)
        assert set(one.attention_features) == set(REF.attention_features)
        assert one.get_attention_backends()[one.get_default_attention_backend()] is REF.get_attention_backends()["reference"]
        assert dict(one.get_state_kernels())["gated_rms_norm"] is RIGHT["gated_rms_norm"]
    return True


def main(names):
    asked = names or sorted(f.stem for f in (HERE / "cases").glob("*.py"))
    together = [n for n in asked if n in COLLECTIVE]
    answers = collectives(together) if together else {}
    for name in asked:
        try:
            if name in COLLECTIVE:
                right, mine = all(answers[name, False]), answers[name, True]
                assert right and None not in mine, (right, mine)
                good = not all(mine) if name[0] == "b" else all(mine)
            else:
                good = globals()[name](platform(name))
        except Exception:
            traceback.print_exc()
            good = False
        words = ("fires", "does not fire") if name[0] == "b" else ("is healthy", "DIFFERS")
        print(name, words[not good], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
