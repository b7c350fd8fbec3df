"""The device under torch: operators against the CPU, memory, streams, events, generators, graphs, and what it refuses.

The tests run in a process of their own (`on_device`); `D`, `device` and `torch` are given there.
"""

# ruff: noqa: F821, PT017
# mypy: disable-error-code="name-defined"
from __future__ import annotations

import importlib.util
from pathlib import Path

# This folder is no package: tests of a copied package must not find the original's.
_spec = importlib.util.spec_from_file_location("run_on_device", Path(__file__).with_name("run_on_device.py"))
assert _spec is not None
assert _spec.loader is not None
_run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_run)
on_device = _run.on_device


@on_device
def test_operators_give_what_the_cpu_gives() -> None:
    """Over every way an operator is served: out variants, meta kernels, views, and shapes that depend on values."""
    F = torch.nn.functional

    def ids(a, *values):
        return torch.tensor(values, device=a.device)

    cases = {
        "out variant": lambda a: a + 1,
        "matrix product": lambda a: a.double() @ a.T.double(),
        "in place": lambda a: a.clone().mul_(2),
        "list of tensors": lambda a: torch.cat([a, a[:2], a[:0]]),
        "several results": lambda a: a.sort(-1),
        "index": lambda a: a[ids(a, 2, 0)],
        "index from the host": lambda a: a[torch.tensor([2, 0])],
        "index_put": lambda a: a.clone().index_put_((ids(a, 1),), torch.tensor(3.0)),
        "embedding": lambda a: F.embedding(ids(a, 1, 3), a),
        "view of another type": lambda a: a.view(torch.int32),
        "strides": lambda a: a.T[1:, ::2].contiguous(),
        "shape from values": lambda a: (a > 0).nonzero(),
        "masked": lambda a: a[a > 0],
        "unique": lambda a: (a > 0).int().unique(),
        "counts": lambda a: a.repeat_interleave(ids(a, 1, 2, 0, 1), 0),
        "no tensor as result": lambda a: torch.equal(a, a),
        "value": lambda a: a.sum().item(),
        "resize": lambda a: torch.add(a, a, out=torch.empty(0, device=a.device)),
        "bfloat16": lambda a: a.bfloat16().T.contiguous() @ a.bfloat16(),
        "convolution": lambda a: F.conv1d(a[None], torch.ones(2, 4, 3, device=a.device)),
        "top k": lambda a: a.topk(2, -1),
    }
    x = torch.randn(4, 6)
    for name, run in cases.items():
        expected, got = run(x), run(x.to(D))
        many = isinstance(expected, tuple)
        for e, g in zip(expected if many else [expected], got if many else [got], strict=True):
            if isinstance(e, torch.Tensor):
                assert g.device.type == D, name
                assert g.stride() == e.stride(), name
                assert torch.equal(g.cpu(), e), name
            else:
                assert g == e, name
    close = F.scaled_dot_product_attention(*[x.to(D)[None, None]] * 3, is_causal=True).cpu()
    torch.testing.assert_close(close, F.scaled_dot_product_attention(*[x[None, None]] * 3, is_causal=True))


@on_device
def test_products_of_a_linear_layer_and_all_others() -> None:
    """Few rows times a weight is the device's kernel, every other product the CPU's: both give what torch gives."""
    F = torch.nn.functional
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float64, 1e-12)):
        for rows in (0, 1, 2, 3, 9, 64, 65):
            x, weight = torch.randn(rows, 100, dtype=dtype), torch.randn(33, 100, dtype=dtype) / 10
            for bias in (None, torch.randn(33, dtype=dtype)):
                got = F.linear(x.to(D), weight.to(D), None if bias is None else bias.to(D))
                assert got.is_contiguous()
                assert got.dtype == dtype
                torch.testing.assert_close(
                    got.cpu(), F.linear(x, weight, bias), rtol=tolerance, atol=tolerance
                )
    x, weight = torch.randn(4, 6), torch.randn(5, 6)
    a, w = x.to(D), weight.to(D)
    torch.testing.assert_close((a[:, ::2] @ w[:, ::2].T).cpu(), x[:, ::2] @ weight[:, ::2].T)
    torch.testing.assert_close((a.T @ a).cpu(), x.T @ x)
    torch.testing.assert_close(
        torch.addmm(a[:, :5], a, w.T, beta=0.5, alpha=2).cpu(),
        torch.addmm(x[:, :5], x, weight.T, beta=0.5, alpha=2),
    )
    assert (a @ w[:0].T).shape == (4, 0)
    assert torch.equal((a[:, :0] @ w[:, :0].T).cpu(), torch.zeros(4, 5))
    try:
        torch.mm(a, w)
    except RuntimeError as error:
        assert "cannot be multiplied" in str(error)
    else:
        raise AssertionError("a product of shapes that do not fit was computed")


@on_device
def test_mixing_devices_is_refused() -> None:
    x = torch.randn(3, 3).to(D)
    try:
        torch.mm(x, torch.randn(3, 3))
    except RuntimeError as error:
        assert "expected all tensors on the device" in str(error)
    else:
        raise AssertionError("a product of a device tensor and a host tensor was computed")


@on_device
def test_a_queued_failure_reaches_the_next_wait_and_only_that() -> None:
    x = torch.randn(3, 3).to(D)
    x[:, torch.tensor([7]).to(D)]
    try:
        torch.accelerator.synchronize()
    except IndexError as error:
        assert "out of bounds" in str(error)
    else:
        raise AssertionError("the failure was lost")
    torch.accelerator.synchronize()
    assert (x + 1).sum().item() != 0


@on_device
def test_the_host_goes_on_while_the_device_works() -> None:
    x = torch.randn(1200, 1200).to(D)
    begin, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
    for products in (6, 24, 96):  # a busy machine may keep the host away for the time of the first
        begin.record()
        for _ in range(products):
            x = x @ x * 1e-3
        end.record()
        went_on = not end.query()
        end.synchronize()
        assert end.query()
        assert begin.elapsed_time(end) > 1
        if went_on:
            return
    raise AssertionError("the host waited for the device")


@on_device
def test_streams_run_side_by_side_and_events_order_them() -> None:
    slow, fast = device.Stream(), device.Stream()
    x = torch.randn(1500, 1500).to(D)
    torch.accelerator.synchronize()
    for products in (4, 16, 64):  # as above
        with device.stream(slow):
            y = x
            for _ in range(products):
                y = y @ x * 1e-2
            done = device.Event()
            done.record()
        with device.stream(fast):
            z = torch.ones(4, device=D) + 1
            fast.synchronize()
            side_by_side = not done.query()
            assert z.sum().item() == 8
            fast.wait_event(done)
            w = y + 0
            y.record_stream(fast)
        fast.synchronize()
        assert done.query()
        assert torch.equal(w.cpu(), y.cpu())
        if side_by_side:
            return
    raise AssertionError("the second stream waited for the first")


@on_device
def test_memory_is_counted_reused_and_limited() -> None:
    base = device.memory_allocated()
    x = torch.zeros(3 << 20, dtype=torch.uint8, device=D)
    address = x.data_ptr()
    assert device.memory_allocated() - base == 4 << 20  # whole 2 MiB pages
    del x
    assert device.memory_allocated() == base
    assert torch.zeros(3 << 20, dtype=torch.uint8, device=D).data_ptr() == address
    assert device.max_memory_allocated() >= base + (4 << 20)
    reserved = device.memory_reserved()
    device.empty_cache()
    assert device.memory_reserved() < reserved
    free, total = device.mem_get_info()
    try:
        torch.empty(total + 1, dtype=torch.uint8, device=D)
    except torch.OutOfMemoryError as error:
        assert "SGLANG_EXAMPLE_OOT_MEMORY" in str(error)
    else:
        raise AssertionError("more than the device has was allocated")
    assert device.mem_get_info() == (free, total)


@on_device
def test_pinned_memory_and_generators() -> None:
    x = torch.arange(5.0).to(D)
    copy = x.to("cpu", non_blocking=True)
    assert copy.is_pinned()
    torch.accelerator.synchronize()
    assert copy.tolist() == [0, 1, 2, 3, 4]
    source = torch.ones(4)
    y = source.to(D, non_blocking=True)
    source.zero_()  # ordinary memory may change as soon as the copy was asked for
    assert y.sum().item() == 4
    device.manual_seed_all(5)
    first = torch.rand(4, device=D).cpu()
    state = device.get_rng_state()
    torch.rand(2, device=D)
    device.set_rng_state(state)
    after = torch.rand(2, device=D).cpu()
    torch.manual_seed(5)
    assert torch.equal(first, torch.rand(4, device=D).cpu())
    assert torch.equal(after, torch.rand(2, device=D).cpu())


@on_device
def test_a_graph_replays_on_new_inputs_and_keeps_its_memory_to_itself() -> None:
    from sglang_platform.example_oot.torch_device.graph import DeviceGraph

    weight = torch.randn(8, 8).to(D)
    inputs = torch.zeros(4, 8, device=D)
    graph = DeviceGraph()
    out = graph.capture(lambda: torch.relu(inputs @ weight) + inputs)
    second = DeviceGraph(memory_of=graph)
    out2 = second.capture(lambda: (inputs[:2] @ weight).tanh())
    for seed in range(3):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
        inputs.copy_(x)
        noise = [
            torch.randn(4, 8, device=D) for _ in range(8)
        ]  # would land in the graph's memory if that were free
        graph.replay()
        assert torch.equal(out.cpu(), torch.relu(x @ weight.cpu()) + x)
        second.replay()
        assert torch.equal(out2.cpu(), (x[:2] @ weight.cpu()).tanh())
        del noise
    before = device.memory_reserved()
    for _ in range(50):
        graph.replay()
    torch.accelerator.synchronize()
    assert device.memory_reserved() == before


@on_device
def test_a_graph_holds_whatever_has_a_shape_before_it_has_values() -> None:
    """Among them what torch hands the device as an empty tensor to be filled."""
    from sglang_platform.example_oot.torch_device.graph import DeviceGraph

    inputs = torch.zeros(2, 6, device=D)
    cases = {
        "count": lambda a: a + torch.arange(6, device=a.device),
        "steps": lambda a: a + torch.arange(3, 0, -0.5, device=a.device),
        "identity": lambda a: a @ torch.eye(6, device=a.device),
        "exponentials": lambda a: a.logsumexp(-1),
        "resized": lambda a: torch.add(a, a, out=torch.empty(0, device=a.device)),
        "convolution": lambda a: torch.nn.functional.conv1d(a[:, None], torch.ones(2, 1, 3, device=a.device)),
        "sorted": lambda a: a.sort(-1, descending=True).values,
    }
    x = torch.randn(2, 6)
    for name, run in cases.items():
        inputs.zero_()
        graph = DeviceGraph()
        out = graph.capture(lambda: run(inputs))  # noqa: B023
        for values in (x, -x):
            inputs.copy_(values)
            graph.replay()
            torch.testing.assert_close(out.cpu(), run(values), msg=lambda text: f"{name}: {text}")  # noqa: B023


@on_device
def test_a_graph_refuses_to_wait() -> None:
    from sglang_platform.example_oot.graph import GraphCaptureError
    from sglang_platform.example_oot.torch_device.graph import DeviceGraph

    x = torch.ones(3, device=D)
    try:
        DeviceGraph().capture(lambda: x.sum().item())
    except GraphCaptureError as error:
        assert "cannot wait" in str(error)
    else:
        raise AssertionError("a value was read during capture")
    assert x.sum().item() == 3  # the stream is usable again


def test_the_host_cannot_touch_device_memory() -> None:
    """Mixing host and device memory must fail here and not on a vendor's card."""
    from sglang_platform.example_oot.kernels import library

    assert library.backend() in ("native", "torch")
    if library.backend() == "native":
        done = _run.run_code(
            _run.PREAMBLE
            + "import ctypes\nx = torch.ones(4, device=D)\nassert x.sum().item() == 4\n"
            + "ctypes.string_at(x.data_ptr(), 4)"
        )
        assert done.returncode == -11, done.stderr


def test_a_forked_child_has_no_device() -> None:
    from sglang_platform.example_oot.kernels import library

    if library.backend() == "native":
        done = _run.run_code(
            _run.PREAMBLE
            + "import os\ntorch.ones(1, device=D)\npid = os.fork()\n"
            + "if pid == 0:\n    os._exit(0 if device._is_in_bad_fork() and device.device_count() == 0 else 3)\n"
            + "assert os.waitpid(pid, 0)[1] == 0"
        )
        assert done.returncode == 0, done.stderr


def test_without_the_device_the_cpu_serves_and_says_so() -> None:
    code = "from sglang_platform.example_oot import torch_device\nprint(torch_device.open_device())"
    done = _run.run_code(code, SGLANG_EXAMPLE_OOT_NATIVE="0")
    assert done.stdout.strip() == "cpu"
    assert "serving on 'cpu'" in done.stderr


def test_kernels_run_on_the_devices_cores_whatever_the_host_allows_itself() -> None:
    """More cores than the machine has: some threads are always late, and the results are those of one thread."""
    done = _run.run_code(
        _run.PREAMBLE
        + """
import os
from sglang_platform.example_oot import kernels

def linear(x, weight):
    out = torch.empty(x.shape[0], weight.shape[0], device=x.device)
    kernels.linear(x, weight, None, out)
    return out

torch.set_num_threads(1)  # as SGLang does where the device is not the CPU
x, weights = torch.randn(20, 512), [torch.randn(512, 512) / 20 for _ in range(4)]
linear(x, weights[0])
before = len(os.listdir("/proc/self/task"))
torch.ones(2).to(D).cpu()
assert len(os.listdir("/proc/self/task")) == before + 1 + 4, "one stream, and four that help it"
on_device = [w.to(D) for w in weights]
for rows in (1, 8, 20):
    expected = y = x[:rows]
    for _ in range(10):
        for w in weights:
            expected = linear(expected, w)
    for _ in range(5):
        y = x[:rows].to(D)
        for _ in range(10):
            for w in on_device:
                y = linear(y, w)
        assert torch.equal(y.cpu(), expected), rows
assert torch.get_num_threads() == 1
""",
        SGLANG_EXAMPLE_OOT_CORES="5",
    )
    assert done.returncode == 0, done.stderr
