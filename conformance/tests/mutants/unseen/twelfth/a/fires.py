"""Shows that each broken platform differs from the reference, and each healthy one does not, without the suite.

    fires.py NAME ...    (no name: all)
"""
import enum, importlib, sys, time, traceback
from pathlib import Path
from types import SimpleNamespace as NS

import torch
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.graph.runner import Drafts
from sglang_platform.core.memory.req_to_token import ReqToTokenPool

torch.set_num_threads(1)
ENC = enum.Enum("AttentionType", {"ENCODER_ONLY": "encoder_only"}).ENCODER_ONLY


def mha_pool(p, size=256, page=4, dtype=torch.float32, heads=2, dim=8, vdim=None, layers=2, start=0):
    return p.get_kv_pool_cls(kind="mha")(size=size, page_size=page, dtype=dtype, head_num=heads, head_dim=dim, v_head_dim=vdim, layer_num=layers, device="cpu", enable_memory_saver=False, start_layer=start)


def mla_pool(p, size=64, page=4, dtype=torch.float32, rank=16, rope=8, layers=2):
    return p.get_kv_pool_cls(kind="mla")(size=size, page_size=page, dtype=dtype, kv_lora_rank=rank, qk_rope_head_dim=rope, layer_num=layers, device="cpu", enable_memory_saver=False)


def dsa_pool(p):
    return p.get_kv_pool_cls(kind="dsa")(size=64, page_size=4, kv_lora_rank=16, dtype=torch.float32, qk_rope_head_dim=8, layer_num=2, device="cpu", index_head_dim=128, enable_memory_saver=False, kv_cache_dim=24)


def layer(i=0, hq=4, hk=2, dim=8, vdim=None, **kw):
    return AttentionLayer(layer_id=i, tp_q_head_num=hq, tp_k_head_num=hk, tp_v_head_num=hk, qk_head_dim=dim, v_head_dim=vdim or dim, scaling=dim**-0.5, **kw)


def backend(p, pool, requests=4, ctx=128):
    table = ReqToTokenPool(requests, ctx, "cpu", False)
    runner = NS(token_to_kv_pool=pool, req_to_token_pool=table, device="cpu")
    b = p.get_attention_backends()[NAME](runner)
    return b, table, runner


def fill(table, lengths, page=4, shared=0):
    """Slots of requests in rows 1.., pages apart; the first `shared` tokens of all are the same."""
    g = torch.Generator().manual_seed(3)
    pages = torch.randperm(250 // page, generator=g) + 1
    at = 0
    for r, n in enumerate(lengths, 1):
        count = -(-n // page)
        own = (pages[at : at + count, None] * page + torch.arange(page)).reshape(-1)[:n]
        table.req_to_token[r, :n] = own.int()
        if shared:
            table.req_to_token[r, :shared] = table.req_to_token[1, :shared]
        at += count


def step(p, lengths, news, mode, heads=2, hq=4, dim=8, page=4, dtype=torch.float32, shared=0, sinks=False, lay=None, layers=1, spread=1.0):
    g = torch.Generator().manual_seed(7)
    pool = mha_pool(p, page=page, dtype=dtype, heads=heads, dim=dim)
    b, table, _ = backend(p, pool)
    fill(table, lengths, page, shared)
    outs = []
    for i in range(layers):
        l = lay(i) if lay else layer(i, hq=hq, hk=heads, dim=dim)
        every = torch.arange(4, 252)
        rows = [torch.randn(248, heads, dim, generator=g) * spread for _ in range(2)]
        pool.set_kv_buffer(l, every, *rows, l.k_scale, l.v_scale)
        t = sum(news)
        q, k, v = (torch.randn(t, h * dim, generator=g) * spread for h in (hq, heads, heads))
        loc = torch.cat([table.req_to_token[r, n - m : n] for r, (n, m) in enumerate(zip(lengths, news), 1)]).long()
        batch = ForwardBatch(mode, len(lengths), torch.arange(1, len(lengths) + 1), torch.tensor(lengths), loc,
            seq_lens_cpu=torch.tensor(lengths), seq_lens_sum=sum(lengths),
            extend_prefix_lens=torch.tensor([n - m for n, m in zip(lengths, news)]), extend_seq_lens=torch.tensor(news), extend_seq_lens_cpu=list(news),
            extend_prefix_lens_cpu=[n - m for n, m in zip(lengths, news)])
        b.init_forward_metadata(batch)
        more = {"sinks": torch.randn(hq, generator=g)} if sinks else {}
        outs.append(b.forward(q, k, v, l, batch, **more))
        assert outs[-1].is_contiguous()
    return outs


D, E, M = ForwardMode.DECODE, ForwardMode.EXTEND, ForwardMode.MIXED


def a01(p): return step(p, [9, 14], [1, 1], D, heads=2, hq=6)
def a02(p): return step(p, [20], [8], E, lay=lambda i: layer(i, sliding_window_size=5))
def a03(p): return step(p, [9, 14], [1, 1], D, shared=8, sinks=True)
def a04(p): return step(p, [9, 14], [1, 1], D, dtype=torch.float8_e4m3fn, spread=2.0, lay=lambda i: layer(i, logit_cap=2.0, k_scale=0.25, v_scale=0.5))
def a05(p): return step(p, [9, 14], [1, 1], D)
def a07(p): return step(p, [9, 14, 7], [1, 5, 1], M)
def a08(p): return step(p, [9, 14], [1, 1], D, dtype=torch.float8_e4m3fn, layers=2, lay=lambda i: layer(i, k_scale=[0.25, 0.5][i], v_scale=[0.5, 2.0][i]))
def a10(p): return step(p, [40], [40], E, lay=lambda i: layer(i, attn_type=ENC))


def a06(p):
    g = torch.Generator().manual_seed(5)
    pool = mla_pool(p)
    b, table, _ = backend(p, pool)
    l = AttentionLayer(0, 4, 4, 4, 12, 6, 12**-0.5)
    q, k, v = torch.randn(7, 48, generator=g), torch.randn(7, 48, generator=g), torch.randn(7, 24, generator=g)
    news = torch.tensor([3, 4])
    batch = ForwardBatch(E, 2, torch.tensor([1, 2]), news, torch.arange(4, 11), seq_lens_cpu=news, extend_prefix_lens=torch.zeros(2).long(), extend_seq_lens=news, extend_seq_lens_cpu=[3, 4], extend_prefix_lens_cpu=[0, 0])
    b.init_forward_metadata(batch)
    return b.forward(q, k, v, l, batch, save_kv_cache=False)


def mla_decode(p):
    g = torch.Generator().manual_seed(5)
    pool = mla_pool(p)
    b, table, _ = backend(p, pool)
    fill(table, [9, 14])
    table.req_to_token.remainder_(60)
    l = AttentionLayer(0, 4, 1, 1, 24, 16, 0.3)
    pool.set_kv_buffer(l, torch.arange(4, 64), torch.randn(60, 1, 24, generator=g), None)
    q = torch.randn(2, 96, generator=g)
    batch = ForwardBatch(D, 2, torch.tensor([1, 2]), torch.tensor([9, 14]), torch.tensor([0, 0]), seq_lens_cpu=torch.tensor([9, 14]))
    b.init_forward_metadata(batch)
    return b.forward(q, None, None, l, batch, save_kv_cache=False)


def a09(p):
    g = torch.Generator().manual_seed(5)
    pool = mha_pool(p)
    b, table, _ = backend(p, pool)
    prefix, n = [5, 9], 3
    fill(table, [x + n for x in prefix])
    l = layer()
    pool.set_kv_buffer(l, torch.arange(4, 252), *(torch.randn(248, 2, 8, generator=g) for _ in range(2)))
    trees = [torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]]), torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 1]])]
    cells = torch.cat([torch.cat((torch.ones(n, x).bool(), t.bool()), 1).reshape(-1) for x, t in zip(prefix, trees)])
    loc = torch.cat([table.req_to_token[r, x : x + n] for r, x in enumerate(prefix, 1)]).long()
    q, k, v = (torch.randn(6, h * 8, generator=g) for h in (4, 2, 2))
    batch = ForwardBatch(ForwardMode.TARGET_VERIFY, 2, torch.tensor([1, 2]), torch.tensor(prefix), loc, seq_lens_cpu=torch.tensor(prefix), spec_info=Drafts(n, cells, topk=2))
    b.init_forward_metadata(batch)
    return b.forward(q, k, v, l, batch)


def chain(p):
    g = torch.Generator().manual_seed(5)
    pool = mha_pool(p)
    b, table, _ = backend(p, pool)
    prefix, n = [5, 9], 3
    fill(table, [x + n for x in prefix])
    l = layer()
    pool.set_kv_buffer(l, torch.arange(4, 252), *(torch.randn(248, 2, 8, generator=g) for _ in range(2)))
    loc = torch.cat([table.req_to_token[r, x : x + n] for r, x in enumerate(prefix, 1)]).long()
    q, k, v = (torch.randn(6, h * 8, generator=g) for h in (4, 2, 2))
    batch = ForwardBatch(ForwardMode.TARGET_VERIFY, 2, torch.tensor([1, 2]), torch.tensor(prefix), loc, seq_lens_cpu=torch.tensor(prefix), spec_info=Drafts(n, None, topk=1))
    b.init_forward_metadata(batch)
    return b.forward(q, k, v, l, batch)


def a11(p):
    pool = mha_pool(p, dtype=torch.float8_e4m3fn)
    rows = torch.linspace(-400, 400, 3 * 16).view(3, 2, 8)
    pool.set_kv_buffer(layer(), torch.tensor([4, 5, 9]), rows, rows / 2, 1.0, 0.5)
    return [b[[4, 5, 9]].float() for b in pool.get_kv_buffer(0)]


def a12(p):
    full, window = mha_pool(p), mha_pool(p, size=64)
    rows = torch.ones(2, 2, 8)
    full.set_kv_buffer(layer(), torch.tensor([4, 5]), rows, rows)
    window.set_kv_buffer(layer(), torch.tensor([4, 5]), -rows, -rows)
    return [full.get_key_buffer(0)[4:6].clone(), window.get_value_buffer(0)[4:6].clone()]


def a13(p):
    pool = mla_pool(p)
    l = layer()
    pool.set_kv_buffer(l, torch.arange(4, 8), torch.arange(96.0).view(4, 1, 24), None)
    got = pool.get_mla_kv_buffer(l, torch.arange(4, 8))
    pool.set_kv_buffer(l, torch.arange(4, 8), torch.zeros(4, 1, 24), None)
    return list(got)


def a14(p):
    pool = dsa_pool(p)
    keys = torch.randn(3, 128, generator=torch.Generator().manual_seed(1)).to(torch.float8_e4m3fn)
    pool.set_index_k_scale_buffer(0, torch.tensor([4, 6, 9]), keys, torch.tensor([1.0, 2.0, 3.0]))
    pool.set_kv_buffer(layer(), torch.tensor([4, 6, 9]), torch.arange(72.0).view(3, 1, 24), None)
    pool.move_kv_cache(torch.tensor([5, 6]), torch.tensor([6, 9]))
    return [*pool.index_key_cache.load(0, torch.tensor([4, 5, 6])), pool.get_key_buffer(0)[4:10].clone()]


def a15(p):
    from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS
    conv = {**PORTABLE_STATE_KERNELS, **p.get_state_kernels()}["short_convolution"]
    g = torch.Generator().manual_seed(1)
    states, x, w = torch.randn(4, 6, 3, generator=g), torch.randn(3, 6, generator=g), torch.randn(6, 4, generator=g)
    y = conv(x, w, None, None, torch.tensor([1, 0, -1]), None, states, silu=True)
    return [y, states]


def a16(p):
    pool, seen = mha_pool(p, start=4), []
    pool.register_layer_transfer_counter(NS(wait_until=seen.append))
    pool.get_key_buffer(5), pool.get_value_buffer(4)
    return torch.tensor(seen)


def a17(p):
    pool = mha_pool(p)
    rows = torch.arange(64.0).view(4, 2, 8)
    pool.set_kv_buffer(layer(), torch.arange(4, 8), rows, -rows)
    one = pool.get_cpu_copy(torch.tensor([4, 5]))
    pool.get_cpu_copy(torch.tensor([6, 7]))
    pool.load_cpu_copy(one, torch.tensor([8, 9]))
    return [b[8:10].clone() for b in pool.get_kv_buffer(0)]


def allocator(p, sort=False, size=32, page=4):
    return p.get_paged_allocator_cls()(size, page, torch.float32, "cpu", None, sort)


def a18(p):
    a = allocator(p)
    s = a.alloc(8)
    state = a.backup_state()
    a.free(s[:4])
    a.restore_state(state)
    try:
        a.free(s)
        return torch.tensor(a.available_size())
    except Exception as e:
        return torch.tensor(-1)


def a19(p):
    a = allocator(p)
    s, other = a.alloc(8), a.alloc(8)
    view = s.clone()
    a.free_group_begin()
    a.free(view)
    view.copy_(other)
    a.free_group_end()
    back = set(a.get_all_free_pages().tolist())
    return torch.tensor([(s // 4).unique().tolist()[0] in back, (other // 4).unique().tolist()[0] in back])


def a20(p):
    a = allocator(p)
    one = lambda *x: torch.tensor(x)
    a.alloc_extend(one(0), one(0), one(3), one(3), torch.tensor([-1], dtype=torch.int32), 3)
    s = a.alloc_extend(one(0), one(0), one(3), one(3), torch.tensor([-1], dtype=torch.int32), 3)
    d = a.alloc_decode(one(4), one(4), s[-1:].to(torch.int32))
    return torch.tensor([s.dtype == torch.int64, d.dtype == torch.int64])


def a21(p):
    a = allocator(p, sort=True)
    s = a.alloc(32)
    a.free(s[:8])
    got = a.alloc_decode(torch.tensor([5]), torch.tensor([5]), torch.tensor([int(s[15])]))
    return torch.tensor([a.available_size(), -1 if got is None else int(got)])


def generic_allocator(p):
    """What any order must give: distinct pages, None where short, everything back at the end."""
    a = allocator(p)
    t = lambda *x: torch.tensor(x)
    s = a.alloc_extend(t(0, 0), t(0, 0), t(6, 3), t(6, 3), t(-1, -1), 9)
    d = a.alloc_decode(t(7, 4), t(7, 4), t(int(s[5]), int(s[8])))
    e = a.alloc_decode(t(8, 5), t(8, 5), d)
    none = a.alloc(1000)
    every = torch.cat((s, d, e))
    left = a.available_size()
    a.free(every)
    return t(len(every.unique()), left, a.available_size(), none is None, bool((every >= 4).all()), s.dtype == torch.int64, len(a.free_pages.unique()))


class Model:
    def __init__(self, b, two=False):
        self.b, self.two = b, two

    def forward(self, ids, positions, batch, **kw):
        x = torch.sin(ids[:, None].float() + torch.arange(16) * 0.1)
        q = torch.cat((x, x.cos()), 1)
        out = self.b.forward(q, x, x * 2, layer(), batch)
        return out


def graphs(p, batches, buckets=(1, 2, 4)):
    pool = mha_pool(p)
    b, table, runner = backend(p, pool, requests=6)
    for r in range(1, 7):
        table.req_to_token[r, :24] = torch.arange(24).int() + 24 * r + 4
    pool.set_kv_buffer(layer(), torch.arange(4, 252), *(torch.randn(248, 2, 8, generator=torch.Generator().manual_seed(i)) for i in (1, 2)))
    runner.attn_backend, runner.model, runner.graph_batch_sizes = b, Model(b), list(buckets)
    cls = p.get_graph_runner_cls()
    if cls is None:
        return []
    run, outs = cls(runner), []
    for rows, lengths in batches:
        rows, lengths = torch.tensor(rows), torch.tensor(lengths)
        loc = table.req_to_token[rows, lengths - 1].long()
        batch = ForwardBatch(D, len(rows), rows, lengths, loc, seq_lens_cpu=lengths, input_ids=rows * 3 + lengths, positions=lengths - 1)
        if run.can_run_graph(batch):
            outs.append(run.execute(batch).clone())
        else:
            b.init_forward_metadata(batch)
            outs.append(runner.model.forward(batch.input_ids, batch.positions, batch))
    outs.append(pool.get_key_buffer(0)[4:].clone())
    return outs


def a22(p): return graphs(p, [([1, 2, 3, 4], [5, 6, 7, 8]), ([1, 2, 3], [6, 7, 8])])
def a23(p): return graphs(p, [([1, 2], [5, 6]), ([1, 2], [9, 12]), ([3], [4]), ([3], [5])])


def a24(p):
    b = p.get_full_graph_backend_cls()(None)
    x = torch.ones(2)
    Key = lambda size, variant: (size, None, variant)
    b.capture_one(Key(2, None), lambda: x * 2)
    b.capture_one(Key(2, "lora"), lambda: x * 5)
    x.fill_(3)
    return [b.replay(Key(2, None), None).clone(), b.replay(Key(2, "lora"), None).clone(), torch.tensor(b.can_run(None, Key(2, "other")))]


def a25(p):
    b = p.get_full_graph_backend_cls()(None)
    x = torch.ones(2)
    b.capture_one(2, lambda: NS(next_token_logits=x * 2, hidden_states=x + 1))
    x.fill_(3)
    o = b.replay(2, None)
    return [o.next_token_logits.clone(), o.hidden_states.clone()]


def memory(p):
    from sglang_platform.core.memory.host_memory import HostMemory
    return (p.get_host_memory_cls() or HostMemory)(False)


def a26(p):
    m = memory(p)
    source, target = torch.arange(16.0)[:, None], torch.zeros(16, 1)
    m.copy_slots([source], [target], torch.arange(4, 8), torch.tensor([2, 3, 9, 10]))
    return target


def a27(p):
    m = memory(p)
    k, v = m.allocate((16, 8), torch.bfloat16), m.allocate((16, 8), torch.bfloat16)
    k.fill_(1), v.fill_(2)
    return [k.clone(), v.clone()]


def pages_out(p):
    m = memory(p)
    device = [torch.randn(16, 3, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    host = [m.allocate((5, 2, 4, 3), torch.float32).zero_() for _ in range(2)]
    m.copy_pages_out(device, host, torch.arange(4, 12), torch.tensor([8, 9, 10, 11, 0, 1, 2, 3]), 4)
    back = [torch.zeros(16, 3) for _ in range(2)]
    m.copy_pages_in(host, back, torch.arange(8, 12), torch.arange(4, 8), 1, 4)
    return host + back


def a28(p):
    from sglang_platform.core.memory.memory_saver import MemorySaver
    s = (p.get_memory_saver_cls() or MemorySaver)()
    flat = torch.arange(10.0)
    s.release("weights", [flat[:4], flat[4:]], keep_content=True)
    s.resume("weights")
    return flat.clone()


BROKEN = {k: v for k, v in list(globals().items()) if len(k) == 3 and k[0] == "a" and k[1:].isdigit()}
COMMON = [a01, a02, a03, a05, a07, a10, a04, a08, a06, mla_decode, a09, a11, a12, a13, a14, a16, a17, generic_allocator, a22, a23, a24, a25, a26, a27, pages_out, a28, a18, a19, a20, a21, a15, chain]
LEFT = {
    "ok6": {a22, a23, a24, a25},
    "ok7": {a02, a03, a04, a06, a08, a09, a10, a11, a13, a14, mla_decode, a22, a23, a24, a25},
    "ok3": set(),
}


def values(x):
    return x if isinstance(x, (list, tuple)) else [x]


def same(x, y):
    x, y = values(x), values(y)
    if len(x) != len(y):
        return False
    return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=1e-4, rtol=1e-3, equal_nan=True) for a, b in zip(x, y))


def main(names):
    ref, known = ReferencePlatform(), {}
    for name in names:
        short = name.split("_")[0]
        try:
            other = importlib.import_module(name).Platform()
            if short in BROKEN:
                good, bad = BROKEN[short](ref), BROKEN[short](other)
                print(name, "does not fire" if same(good, bad) else "fires", flush=True)
                # what is said to be right beside the defect is right
                wrong = []
                for f in COMMON:
                    if f is not BROKEN[short]:
                        try:
                            if not same(known.setdefault(f, f(ref)), f(other)):
                                wrong.append(f.__name__)
                        except Exception as e:
                            wrong.append(f"{f.__name__}!{type(e).__name__}: {e}"[:120])
                if wrong:
                    print("    also differs in:", *wrong)
                continue
            bad, count = [], 0
            for f in COMMON:
                if f in LEFT.get(short, ()):
                    continue
                count += 1
                if not same(known.setdefault(f, f(ref)), f(other)):
                    bad.append(f.__name__)
            print(name, f"answers as the reference in {count} demonstrations" if not bad else f"DIFFERS in {bad}", flush=True)
            if short == "ok7":
                for f in (a02, a03, a04, a09, a10, mla_decode):
                    try:
                        f(other); print("   not refused:", f.__name__)
                    except Exception as e:
                        print("   refused:", f.__name__, type(e).__name__, str(e).split("\n")[0][:80])
        except Exception:
            print(name, "ERROR"); traceback.print_exc()


if __name__ == "__main__":
    here = Path(__file__).parent / "cases"
    sys.path.insert(0, str(here))
    main(sys.argv[1:] or sorted(f.stem for f in here.glob("*.py")))
