"""Each case against the reference (or a float64 formula) on random inputs, in one process."""
import os, tempfile, importlib, types, random, traceback
import torch, torch.distributed as dist
torch.manual_seed(0); random.seed(0)
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.contract.factories import refuse_wrong_answers
NS = types.SimpleNamespace
R = ReferencePlatform()
def same(a, b, tol=0.0):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    d = (a.double() - b.double()).abs().max().item() if a.numel() else 0
    assert d <= tol, d
def communicator(P, names):
    d = tempfile.mktemp()
    if not dist.is_initialized(): dist.init_process_group("gloo", init_method=f"file://{d}", rank=0, world_size=1)
    g = dist.group.WORLD
    mine, ref = (p.get_communicator_class()(cpu_group=g, device=torch.device("cpu"), device_group=g, unique_name="x") for p in (P, R))
    for dt in (torch.float32, torch.bfloat16, torch.int64):
        x = torch.randn(4, 6).mul(9).to(dt)
        for n in names:
            if n in ("all_reduce", "broadcast", "reduce_scatterv", "all_gatherv"): same(getattr(mine, n)(x.clone()), getattr(ref, n)(x.clone()))
            elif n in ("all_gather", "gather"):
                for dim in (0, 1, -1): same(getattr(mine, n)(x.T, dim=dim), getattr(ref, n)(x.T, dim=dim))
            else:
                o, p = torch.empty_like(x), torch.empty_like(x); getattr(mine, n)(o, x); getattr(ref, n)(p, x); same(o, p)
ALL = ("all_reduce", "all_gather", "gather", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "all_gatherv", "reduce_scatterv")
def pools(P):
    for dt in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
      for ps, size in ((1, 33), (4, 32), (16, 40)):
        kw = dict(size=size, page_size=ps, dtype=dt, layer_num=3, device="cpu", enable_memory_saver=False, start_layer=2)
        for kind, more in (("mha", dict(head_num=2, head_dim=8, v_head_dim=6)), ("mla", dict(kv_lora_rank=128, qk_rope_head_dim=8)),
                           ("dsa", dict(kv_lora_rank=128, qk_rope_head_dim=8, index_head_dim=128, kv_cache_dim=136, skip_topk_layers=[False, True, False])),
                           ("dsa", dict(kv_lora_rank=128, qk_rope_head_dim=8, index_head_dim=128, kv_cache_dim=128 + 4 + 16))):
            if kind == "dsa" and more["kv_cache_dim"] == 148 and dt not in (torch.float8_e4m3fn,): continue
            a, b = P.get_kv_pool_cls(kind=kind)(**kw, **more), R.get_kv_pool_cls(kind=kind)(**kw, **more)
            for lid in (2, 3, 4):
                loc = torch.randperm(size + ps)[:20]
                lay = NS(layer_id=lid)
                if kind == "mha":
                    k, v = torch.randn(20, 2, 8) * 300, torch.randn(20, 2, 6)
                    for p in (a, b): p.set_kv_buffer(lay, loc.int() if p is a else loc, k, v, 0.5, torch.tensor(2.0))
                else:
                    k = torch.randn(20, 1, 136)
                    for p in (a, b): p.set_mla_kv_buffer(lay, loc, k[..., :128], k[..., 128:])
                    if kind == "dsa" and not a.skip_topk_layers[lid - 2]:
                        ik, sc = torch.randn(20, 128).to(torch.float8_e4m3fn), torch.rand(20, 1)
                        for p in (a, b): p.set_index_k_scale_buffer(lid, loc, ik, sc)
            def equal():
                for lid in (2, 3, 4):
                    for g in ("get_key_buffer",) + (() if more.get("kv_cache_dim") == 148 else ("get_value_buffer",)):
                        same(getattr(a, g)(lid).contiguous().view(a.store_dtype), getattr(b, g)(lid).contiguous().view(a.store_dtype))
                    if kind == "dsa": same(a.get_index_k_with_scale_buffer(lid), b.get_index_k_with_scale_buffer(lid))
            equal()
            src, tgt = torch.arange(ps, ps + 9), torch.arange(ps + 3, ps + 12)
            for p in (a, b):
                p.move_kv_cache(tgt, src)
                p.load_cpu_copy(p.get_cpu_copy(src), tgt.flip(0))
                e = torch.empty(0, dtype=torch.int64); p.load_cpu_copy(p.get_cpu_copy(e), e)
                try: p.load_cpu_copy(p.get_cpu_copy(src), tgt[:-1]); assert 0
                except PlatformError: pass
                try: p.get_key_buffer(9); assert 0
                except PlatformError: pass
            equal()
            (ad, ln, pg), (_, rl, rp) = a.get_contiguous_buf_infos(), b.get_contiguous_buf_infos()
            assert ln == rl and pg == rp and len(set(ad)) == len(ad)
            stores = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for l in range(3) for t in a._slot_buffers(l)}
            if kind == "dsa": stores |= {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in a.index_k_with_scale_buffer if t.numel()}
            n = a.get_kv_size_bytes(); assert (sum(n) if isinstance(n, tuple) else n) == sum(stores.values()), (n, stores)
def allocator(P, dt):
    for ps in (1, 4, 16):
      for sort in (False, True):
        A = P.get_paged_allocator_cls()(40 * ps, ps, torch.float32, "cpu", None, sort); B = R.get_paged_allocator_cls()(40 * ps, ps, torch.float32, "cpu", None, sort)
        reqs = []
        for step in range(150):
            act = random.random()
            if act < .35:
                pre = [0] * 2; seq = [random.randint(1, 3 * ps) for _ in pre]; t = torch.tensor
                args = (t(pre), t(pre), t(seq), t(seq), t([-1, -1]), sum(seq))
                x, y = A.alloc_extend(*args), B.alloc_extend(*args)
                assert (x is None) == (y is None)
                if x is not None:
                    assert x.dtype == dt and len(x) == sum(seq)
                    for part in x.split(seq): reqs.append([part, ])
                    for r, part in zip(reqs[-2:], y.split(seq)): r.append(part)
            elif act < .75 and reqs:
                sl = torch.tensor([len(r[0]) + 1 for r in reqs])
                x, y = (al.alloc_decode(sl, sl, torch.stack([r[i][-1] for r in reqs])) for i, al in ((0, A), (1, B)))
                assert (x is None) == (y is None)
                if x is not None:
                    assert x.dtype == dt
                    for i, r in enumerate(reqs): r[0], r[1] = torch.cat([r[0], x[i:i+1]]), torch.cat([r[1], y[i:i+1]])
            elif reqs:
                r = reqs.pop(random.randrange(len(reqs)))
                s = A.backup_state(); A.free(r[0]); 
                try: A.free(r[0]); assert 0
                except PlatformError: pass
                A.restore_state(s); A.free_segment(r[0], start_pos=0); B.free_segment(r[1], start_pos=0)
            assert A.available_size() == B.available_size() and len(A.get_all_free_pages()) * ps == A.available_size()
            used = torch.cat([r[0] for r in reqs]) if reqs else torch.empty(0, dtype=dt)
            assert len(set(used.tolist())) == len(used) and (not len(used) or used.min() >= ps)
            assert not set((used // ps).tolist()) & set(A.free_pages.tolist())
            for r in reqs: assert all(int(s) % ps == i % ps for i, s in enumerate(r[0]))
            if sort: assert A.free_pages.tolist() == sorted(A.free_pages.tolist())
        A.free_group_begin()
        for r in reqs: A.free(r[0])
        A.free_group_end(); assert A.available_size() == 40 * ps
        x = A.alloc(2 * ps); assert x.dtype == dt and len(x) == 2 * ps; A.clear(); assert A.available_size() == 40 * ps
        for bad in ([0], [41 * ps], [-ps]):
            try: A.free(torch.tensor(bad)); assert 0
            except PlatformError: pass
        A.resize(NS(max_total_num_tokens=8 * ps)); assert A.available_size() == 8 * ps
def attention(P, caps):
    for dt, tol in ((torch.float32, 3e-5), (torch.bfloat16, 2e-2)):
     for store in (dt, torch.float8_e4m3fn):
      for hq, hk in ((4, 4), (8, 2), (6, 1)):
        for opt in (dict(), dict(sliding_window_size=5), dict(sliding_window_size=0), dict(attn_type=NS(value="encoder_only")), dict(logit_cap=3.0), dict(sinks=1), dict(sinks=1, sliding_window_size=70, logit_cap=9.0)):
            opt = dict(opt); sk = torch.randn(hq) * 3 if opt.pop("sinks", 0) else None
            lay = AttentionLayer(0, hq, hk, hk, 16, 8, .25, k_scale=torch.tensor(.5) if store != dt else None, v_scale=.25 if store != dt else None, **opt)
            pre, new = [0, 300, 7, 450], [5, 3, 1, 260]; tot = [p + n for p, n in zip(pre, new)]
            pool = R.get_kv_pool_cls(kind="mha")(1200, 1, store, hk, 16, 1, "cpu", False, v_head_dim=8)
            pool.set_kv_buffer(lay, torch.arange(1201), torch.randn(1201, hk, 16), torch.randn(1201, hk, 8), lay.k_scale, lay.v_scale)
            table = torch.zeros(6, 800, dtype=torch.int32); perm = torch.randperm(1200)[:sum(tot)] + 1; outs = []; at = 0
            for i, n in enumerate(tot): table[i + 1, :n] = perm[at:at + n]; outs.append(perm[at:at + n][-new[i]:]); at += n
            mr = NS(token_to_kv_pool=pool, req_to_token_pool=NS(req_to_token=table), device="cpu")
            t = torch.tensor; N = sum(new)
            fb = ForwardBatch(ForwardMode.EXTEND, 4, t([1, 2, 3, 4]), t(tot), torch.cat(outs), t(tot), sum(tot), extend_prefix_lens=t(pre), extend_seq_lens=t(new))
            fd = ForwardBatch(ForwardMode.DECODE, 4, t([1, 2, 3, 4]), t(tot), t([int(o[-1]) for o in outs]), t(tot), sum(tot))
            (mine, ref) = (next(iter(p.get_attention_backends().values()))(mr) for p in (P, R))
            for b, n in ((fb, N), (fd, 4)):
                q, k, v = torch.randn(n, hq * 16).to(dt), torch.randn(n, hk * 16).to(dt), torch.randn(n, hk * 8).to(dt)
                kw = {} if sk is None else {"sinks": sk}
                y = ref.forward(q, k, v, lay, b, **kw)
                mine.init_forward_metadata(b)
                if not caps and (sk is not None or lay.logit_cap):
                    try: mine.forward(q, k, v, lay, b, **kw); assert 0
                    except NotImplementedError: continue
                x = mine.forward(q, k, v, lay, b, **kw); assert x.is_contiguous(); same(x, y, tol)
    pool = R.get_kv_pool_cls(kind="mla")(64, 1, torch.float32, 16, 4, 1, "cpu", False)
    pool.kv_buffer[0].normal_(); table = torch.arange(1, 33, dtype=torch.int32).repeat(3, 1); t = torch.tensor
    mr = NS(token_to_kv_pool=pool, req_to_token_pool=NS(req_to_token=table), device="cpu")
    lay = AttentionLayer(0, 4, 1, 1, 20, 16, .3); fd = ForwardBatch(ForwardMode.DECODE, 2, t([1, 2]), t([9, 30]), t([40, 41]), t([9, 30]), 39)
    q, k = torch.randn(2, 80), torch.randn(2, 20); a, b = (next(iter(p.get_attention_backends().values()))(mr).forward(q, k, None, lay, fd) for p in (P, R)); same(a, b, 1e-5)
    lay = AttentionLayer(0, 4, 4, 4, 24, 10, .3); fe = ForwardBatch(ForwardMode.EXTEND, 2, t([1, 2]), t([9, 3]), torch.arange(12), t([9, 3]), 12, extend_prefix_lens=t([0, 0]), extend_seq_lens=t([9, 3]))
    q, k, v = torch.randn(12, 96), torch.randn(12, 96), torch.randn(12, 40); a, b = (next(iter(p.get_attention_backends().values()))(mr).forward(q, k, v, lay, fe, save_kv_cache=False) for p in (P, R)); same(a, b, 1e-5)
def graphs(P):
    W = torch.randn(50, 7); calls = []
    def fwd(ids, pos, fb): return W[ids] * (fb.seq_lens[:, None] + pos[:, None])
    mr = NS(device="cpu", graph_batch_sizes=[1, 2, 8], model=NS(forward=fwd), attn_backend=R.get_attention_backends()["reference"](NS(token_to_kv_pool=None, req_to_token_pool=None, device="cpu")))
    a, b = P.get_graph_runner_cls()(mr), R.get_graph_runner_cls()(mr)
    for n in (1, 3, 8, 2, 5, 1, 8):
        t = lambda: torch.randint(1, 50, (n,)); s = t()
        fb = ForwardBatch(ForwardMode.DECODE, n, t(), s, t(), s, int(s.sum()), positions=s - 1, input_ids=t())
        assert a.can_run_graph(fb); same(a.execute(fb).clone(), b.execute(fb)); assert a.bs == b.bs
        same(a.execute(fb), fwd(fb.input_ids, fb.positions, fb))
    a.capture(); assert not a.captured; same(a.execute(fb), b.execute(fb))
    fb.batch_size = 9; assert not a.can_run_graph(fb)
    mr.graph_batch_sizes = [16]; c = P.get_graph_runner_cls()(mr); fb.batch_size = 1; assert not c.can_run_graph(fb)
def memory(P):
    H = P.get_host_memory_cls()(False)
    for dt in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.bool):
        x = H.allocate((3, 5), dt); assert x.shape == (3, 5) and x.dtype == dt and x.is_contiguous()
        assert H.allocate((0, 5), dt).shape == (0, 5)
    s, d = torch.randn(40, 3, 70000 // 40), H.allocate((50, 3, 1750), torch.float32); i = torch.tensor([3, 4, 5, 9, 1]); j = torch.tensor([7, 8, 9, 2, 40])
    H.copy_slots([s], [d], i, j); same(d[j], s[i]); assert H.register(d); H.unregister(d)
    M = P.get_memory_saver_cls()(); a = torch.randn(100, 7); v = a[3:]; w = torch.randn(9).bfloat16(); keep, kw = a.clone(), w.clone()
    M.release("w", iter([a, v, w]), keep_content=True); assert a.untyped_storage().nbytes() == 0 and M.released() == ("w",)
    try: M.release("w", [torch.zeros(1)], keep_content=True); assert 0
    except PlatformError: pass
    M.resume("w"); same(a, keep); same(w, kw); same(v, keep[3:]); M.release("k", [a]); M.resume("k"); assert not a.any()
    try: M.resume("k"); assert 0
    except PlatformError: pass
def ops(P):
    from sglang_platform.conformance.reference import ops as ro, more_ops as mo
    from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS as K
    P.init_backend(); P.init_backend(); from sglang_platform.core import FusedOp; assert len(FusedOp.registered("thirteen")) == 5; FusedOp.refuse_other_keys(P, None)
    import c13
    for dt, tol in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)):
        op = NS(weight=torch.randn(16).to(dt), bias=torch.randn(16).to(dt), variance_epsilon=1e-6, variance_size_override=None, override_orig_dtype=None, fp32_residual=False, cast_x_before_out_mul=False, approximate="tanh", elementwise_affine=True, use_bias=True)
        x, r = torch.randn(5, 16).to(dt), torch.randn(5, 16).to(dt)
        same(c13._rms_norm(op, x), ro.rms_norm(op, x), tol)
        ref = ro.rms_norm(op, x, r); xi, ri = x.clone(), r.clone(); got = c13._rms_norm(op, xi, ri); same(got[0], ref[0], tol); same(got[1], ref[1]); assert got[0] is xi
        op.fp32_residual = True; assert c13._rms_norm(op, x) is NotImplemented
        same(c13._silu_and_mul(op, x), ro.silu_and_mul(op, x), tol); same(c13._gelu_and_mul(op, x), mo.gelu_and_mul(op, x), tol); same(c13._relu2(op, x), mo.relu2(op, x), tol); same(c13._layer_norm(op, x), mo.layer_norm(op, x), tol)
        assert not torch.isnan(c13._silu_and_mul(op, x * 1000)).any()
        a, b, dl, bi = torch.randn(4, 3).to(dt), torch.randn(4, 3).to(dt), torch.randn(3), torch.randn(3)
        for p, q in zip(P.get_state_kernels()["gated_delta_gates"](a, b, dl, bi), K["gated_delta_gates"](a, b, dl, bi)): same(p, q, 1e-5)
def hooks(P):
    from sglang_platform.core import HookRegistry; P.init_backend(); P.init_backend(); print("   ", [(r.target, r.state) if hasattr(r, "target") else r for r in HookRegistry.report()])
RUN = {1: [lambda P: communicator(P, ALL), hooks], 2: [lambda P: communicator(P, ("all_reduce", "all_gather"))], 3: [lambda P: communicator(P, ALL)],
       4: [pools], 5: [pools], 6: [pools], 7: [lambda P: allocator(P, torch.int64)], 8: [lambda P: allocator(P, torch.int32)],
       9: [lambda P: attention(P, True)], 10: [lambda P: attention(P, False)], 11: [graphs], 12: [memory], 13: [ops]}
import sys
for i, checks in RUN.items():
    if sys.argv[1:] and str(i) not in sys.argv[1:]: continue
    try:
        cls = importlib.import_module(f"c{i:02}").Platform; P = cls(); refuse_wrong_answers(cls, P, None)
        assert P.get_default_attention_backend() in P.get_attention_backends() and P.capabilities and list(P.attention_features) and list(P.supported_kv_dtypes)
        for check in checks: check(P)
        print(f"c{i:02} same", flush=True)
    except BaseException: print(f"c{i:02} FAILED"); traceback.print_exc()
