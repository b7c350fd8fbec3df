"""Torch's protocols of a device: each is served with the right values, or refused in words."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

Draw = Callable[[str, "torch.Generator"], torch.Tensor]


def _saved(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def _sent(value: Any) -> Any:
    """`value` as another process gets it."""
    return pickle.loads(ForkingPickler.dumps(value))  # type: ignore[arg-type]


def _cloned_by_torch(generator: torch.Generator) -> torch.Generator:
    return generator.clone_state()


COPIES: list[Callable[[Any], Any]] = [
    lambda value: pickle.loads(pickle.dumps(value)),
    copy.copy,
    copy.deepcopy,
    lambda value: _saved(value, weights_only=False),
    lambda value: _saved(value, weights_only=True),
    _sent,
]
COPY_NAMES = ["pickle", "copy", "deepcopy", "save", "save, weights only", "sent"]


@pytest.mark.parametrize("made", [*COPIES, _cloned_by_torch], ids=[*COPY_NAMES, "clone_state"])
def test_a_copied_generator_goes_on_where_the_first_is(
    made: Callable[[torch.Generator], torch.Generator], device_type: str
) -> None:
    first = torch.Generator(device=f"{device_type}:1").manual_seed(7)
    torch.rand(3, device=first.device, generator=first)
    second = made(first)
    assert second is not first
    assert (second.device, second.initial_seed()) == (first.device, 7)
    drawn = [torch.randn(8, device=one.device, generator=one).cpu() for one in (first, second)]
    assert torch.equal(*drawn)


def test_a_cloned_generator_waits_for_what_is_queued(device_type: str) -> None:
    generator = torch.Generator(device=device_type).manual_seed(7)
    torch.rand(4 << 20, device=device_type, generator=generator)
    cloned = generator.clone_state()
    assert torch.equal(cloned.get_state(), generator.get_state())


def test_two_generators_may_share_one_state(device_type: str) -> None:
    first = torch.Generator(device=device_type).manual_seed(7)
    wanted = torch.rand(8, device=device_type, generator=first.clone_state()).tolist()
    for second in (first.graphsafe_get_state(), torch.Generator(device=device_type)):
        first.manual_seed(7)
        second.graphsafe_set_state(first)
        got = [torch.rand(4, device=device_type, generator=one) for one in (first, second)]
        assert torch.cat(got).tolist() == wanted
    with pytest.raises(RuntimeError, match="but found 'cpu'"):
        first.graphsafe_set_state(torch.Generator())


def test_an_offset_is_refused_with_what_to_use(device_type: str) -> None:
    generator = torch.Generator(device=device_type)
    for ask in (generator.get_offset, lambda: generator.set_offset(0)):
        with pytest.raises(NotImplementedError, match=r"has no offset: get_state\(\) and set_state\(\)"):
            ask()


DRAWS: dict[str, Draw] = {
    "rand": lambda device, g: torch.rand(4, device=device, generator=g),
    "randn": lambda device, g: torch.randn(4, device=device, generator=g),
    "randint": lambda device, g: torch.randint(9, (4,), device=device, generator=g),
    "randperm": lambda device, g: torch.randperm(9, device=device, generator=g),
    "rand_like": lambda device, g: torch.rand_like(torch.ones(4, device=device), generator=g),
    "multinomial": lambda device, g: torch.multinomial(torch.ones(9, device=device), 4, generator=g),
    "bernoulli": lambda device, g: torch.bernoulli(torch.full((9,), 0.5, device=device), generator=g),
    "bernoulli_": lambda device, g: torch.zeros(9, device=device).bernoulli_(0.5, generator=g),
    "normal": lambda device, g: torch.normal(torch.zeros(4, device=device), 1.0, generator=g),
    "normal_": lambda device, g: torch.zeros(4, device=device).normal_(generator=g),
    "exponential_": lambda device, g: torch.zeros(4, device=device).exponential_(generator=g),
    "uniform_": lambda device, g: torch.zeros(4, device=device).uniform_(generator=g),
    "random_": lambda device, g: torch.zeros(4, device=device).random_(9, generator=g),
    "geometric_": lambda device, g: torch.zeros(4, device=device).geometric_(0.5, generator=g),
    "cauchy_": lambda device, g: torch.zeros(4, device=device).cauchy_(generator=g),
    "log_normal_": lambda device, g: torch.zeros(4, device=device).log_normal_(generator=g),
    "poisson": lambda device, g: torch.poisson(torch.ones(9, device=device), generator=g),
    "init": lambda device, g: torch.nn.init.xavier_uniform_(torch.zeros(4, 4, device=device), generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_an_operator_takes_a_generator_of_its_own_device(draw: Draw, device_type: str) -> None:
    seeded = [torch.Generator(device=device_type).manual_seed(5) for _ in (0, 1)]
    assert torch.equal(*[draw(device_type, generator).cpu() for generator in seeded])
    assert not torch.equal(
        seeded[0].get_state(), torch.Generator(device=device_type).manual_seed(5).get_state()
    )
    for where, given in ((device_type, "cpu"), ("cpu", device_type)):
        with pytest.raises(
            RuntimeError, match=f"Expected a '{where}' device type for generator but found '{given}'"
        ):
            draw(where, torch.Generator(device=given))
    with pytest.raises(RuntimeError, match="expected a generator of device 0 but found one of device 1"):
        draw(f"{device_type}:0", torch.Generator(device=f"{device_type}:1"))


def test_default_generators(device_type: str, device: ModuleType) -> None:
    assert [one.device.index for one in device.default_generators] == [*range(device.device_count())]
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type=device_type):
        kept = torch.rand(4, device=device_type).tolist()
    assert torch.rand(4, device=device_type, generator=device.default_generators[0]).tolist() == kept


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_draws_the_same_again(reentrant: bool, device_type: str) -> None:
    drawn = []

    def layer(x: torch.Tensor) -> torch.Tensor:
        drawn.append(torch.nn.functional.dropout(torch.ones_like(x)).detach().cpu())
        return x * x

    x = torch.ones(64, device=device_type, requires_grad=True)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(*drawn)


@pytest.mark.parametrize("made", COPIES, ids=COPY_NAMES)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool, torch.uint16]
)
def test_copies_of_tensors_have_values_strides_and_views(
    dtype: torch.dtype, made: Callable[[Any], Any], device_type: str
) -> None:
    x = torch.arange(6.0).view(2, 3).to(dtype).to(f"{device_type}:1")
    value = [x.t(), x[1], x[:0], torch.nn.Parameter(x.clone(), requires_grad=dtype.is_floating_point)]
    if made is COPIES[0] and dtype in (torch.float8_e4m3fn, torch.uint16):
        pytest.skip("torch pickles no such type, on any device")
    got = made(value)
    for sent, there in zip(value, got, strict=True):
        assert (there.device, there.dtype, there.stride()) == (sent.device, sent.dtype, sent.stride())
        assert (type(there), there.requires_grad) == (type(sent), sent.requires_grad)
        assert torch.equal(there.detach().cpu().float(), sent.detach().cpu().float())
    if made is not COPIES[0]:  # pickle has no views, on any device
        assert got[0].untyped_storage().data_ptr() == got[1].untyped_storage().data_ptr()


def test_what_no_process_can_take_is_refused(device_type: str, device: ModuleType) -> None:
    stream, event = torch.Stream(device=device_type), torch.Event(device_type)
    for value in (stream, event):
        with pytest.raises(TypeError, match="cannot pickle"):
            _sent(value)
    with pytest.raises(NotImplementedError, match="interprocess"):
        device.Event(interprocess=True)
    with pytest.raises(RuntimeError, match="non-leaf"):
        _sent(torch.ones(2, device=device_type, requires_grad=True) * 2)


def test_a_storage_arrives_where_there_is_no_device_of_its_index(device_type: str) -> None:
    from sglang_platform.core.portable.torch.sent_storages import rebuild_storage

    assert rebuild_storage(b"ab", f"{device_type}:99").tolist() == [*b"ab"]
    with pytest.raises(RuntimeError, match=r"something on acme:0 came from another process.*\n.*\n *fix:"):
        rebuild_storage(b"ab", "acme:0")


def test_dlpack(device_type: str) -> None:
    x = torch.arange(6.0, device=f"{device_type}:1").view(2, 3).t()
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 1)
    same = torch.from_dlpack(x)
    assert (same.device, same.stride(), same.data_ptr()) == (x.device, x.stride(), x.data_ptr())
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.equal(torch.from_dlpack(x, device="cpu"), x.cpu())
    assert torch.from_dlpack(numpy.ones(3), device=device_type).tolist() == [1, 1, 1]
    assert torch.from_dlpack(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises((RuntimeError, BufferError)):
        numpy.from_dlpack(x)


def test_numpy_reads_no_memory_of_the_device(device_type: str) -> None:
    x = torch.arange(3.0, device=device_type)
    for read in (x.numpy, lambda: numpy.asarray(x), x.__array__):
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
            read()
    assert x.numpy(force=True).tolist() == [0, 1, 2]
    assert not hasattr(x, "__cuda_array_interface__")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype, device_type: str, device: ModuleType) -> None:
    x = torch.randn(3, 3, device=device_type)
    assert dtype in device.get_amp_supported_dtype()
    with torch.autocast(device_type, dtype=dtype):
        product, total = x @ x, (x @ x).softmax(0)
        with torch.autocast(device_type, enabled=False):
            assert (x @ x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe under autocast"):
            torch.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid())
    assert (product.dtype, total.dtype, (x @ x).dtype) == (dtype, torch.float32, torch.float32)
    assert torch.equal(product.cpu(), (x.to(dtype) @ x.to(dtype)).cpu())


def test_autocast_warns_of_a_type_it_does_not_compute_in(device_type: str) -> None:
    with pytest.warns(UserWarning, match="not supported"), torch.autocast(device_type, dtype=torch.float64):
        assert (
            torch.ones(2, 2, device=device_type) @ torch.ones(2, 2, device=device_type)
        ).dtype == torch.float32


def test_a_function_of_ones_own_under_autocast(device_type: str) -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device_type, cast_inputs=torch.float16)  # type: ignore[misc]
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            assert not torch.is_autocast_enabled(device_type)
            return 2 * x

        @staticmethod
        @torch.amp.custom_bwd(device_type=device_type)  # type: ignore[misc]
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return 2 * gradient

    x = torch.ones(2, device=device_type, requires_grad=True)
    with torch.autocast(device_type):
        result = Doubled.apply(x)
    result.sum().backward()
    assert result.dtype == torch.float16
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_scaled_gradients(device_type: str) -> None:
    layer = torch.nn.Linear(2, 1, bias=False, device=device_type)
    optimizer, scaler = torch.optim.SGD(layer.parameters(), 1.0), torch.amp.GradScaler(device_type)
    before = layer.weight.detach().cpu()
    scaler.scale(layer(torch.ones(1, 2, device=device_type)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(before - layer.weight.detach().cpu(), torch.ones(1, 2))


KINDS: dict[str, Callable[[str], Any]] = {
    "sparse": lambda device: torch.sparse_coo_tensor([[0]], [1.0], device=device),
    "sparse, moved": lambda device: torch.eye(3).to_sparse().to(device),
    "sparse, converted": lambda device: torch.eye(3, device=device).to_sparse(),
    "sparse, empty": lambda device: torch.empty(2, 2, layout=torch.sparse_coo, device=device),
    "sparse rows": lambda device: torch.sparse_csr_tensor([0, 1], [0], [1.0], device=device).to_dense(),
    "quantized": lambda device: torch.quantize_per_tensor(torch.ones(2, device=device), 0.1, 0, torch.qint8),
    "quantized, moved": lambda device: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to(
        device
    ),
    "nested": lambda device: torch.nested.nested_tensor([torch.ones(2)]).to(device),
    "mkldnn": lambda device: torch.ones(2, 2, device=device).to_mkldnn(),
    "compiled by Inductor": lambda device: torch.compile(lambda x: 2 * x)(torch.ones(2, device=device)),
    "no values": lambda device: torch.ones(2, device="meta").to(device),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_kinds_of_tensors_that_the_device_has_not(make: Callable[[str], Any], device_type: str) -> None:
    with pytest.raises(Exception, match=r"the device has|generates no code for|no data") as refused:
        make(device_type)
    assert "Could not run" not in str(refused.value)


def test_compiled_without_a_code_generator(device_type: str) -> None:
    x = torch.arange(4.0, device=device_type)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        assert torch.compile(lambda x: 2 * x + 1, backend=backend)(x).tolist() == [1, 3, 5, 7]


def test_jagged_tensors_and_subclasses(device_type: str) -> None:
    class Marked(torch.Tensor):
        pass

    parts = [torch.ones(2, device=device_type), torch.ones(3, device=device_type)]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    assert _sent(jagged).values().tolist() == [1] * 5
    assert isinstance(parts[0].as_subclass(Marked) + 1, Marked)
