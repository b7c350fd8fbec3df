"""Tests of torch's operators on the device, one per entry of torch's `op_db`, type and question.

The first three ask what torch asks of its own reference device for PrivateUse1 (`test_opinfo.py` of OpenReg), under the
same names.
"""

# ruff: noqa: BLE001 - torch's own way to make tests is unittest's; any error is a refusal
from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_device_type
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, noncontiguous_like
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.bfloat16, torch.int64)
OF_THE_HOST = ("tensor_split",)
"""Operators whose tensors beside the input are the host's on every device: torch refuses others."""
NO_VALUES = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")

ROUNDINGS = 16
"""How many roundings of its inputs and of itself a value may be away from the one in float64."""


def _moved(sample: Any, device: str, op: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Input, arguments and keywords of a sample, with all tensors and devices on `device`.

    Tensors that share memory share it there: a sample may be about that, or about what lies around its elements.
    """
    memories: dict[int, torch.UntypedStorage] = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.layout != torch.strided:
            return value
        memory = value.untyped_storage()
        if memory._cdata not in memories:
            memories[memory._cdata] = torch.UntypedStorage(memory.nbytes(), device=device).copy_(memory)
        there = torch.empty(0, dtype=value.dtype, device=device)
        there.set_(memories[memory._cdata], value.storage_offset(), value.size(), value.stride())
        there = there.conj() if value.is_conj() else there
        there = torch._neg_view(there) if value.is_neg() else there
        return there.requires_grad_(value.requires_grad)

    with torch.no_grad():
        if op.name in OF_THE_HOST:
            return move(sample.input), sample.args, sample.kwargs
        return tree_map(move, (sample.input, sample.args, sample.kwargs))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_flatten(value)[0] if isinstance(one, torch.Tensor)]


def _strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance from the value in float64."""
    return float((got.detach().cpu().double() - exact.double()).abs().max())


def _on_cpu(call: Callable[[], Any]) -> Any:
    """What the CPU gives; SkipTest where it refuses the sample itself."""
    try:
        return call()
    except Exception as error:
        raise unittest.SkipTest(f"the CPU: {error}") from error


class TestOpInfo(TestCase):
    def _samples(self, op: Any, dtype: torch.dtype, **options: Any) -> Iterator[Any]:
        torch.manual_seed(11)
        yield from op.sample_inputs("cpu", dtype, **options)

    def _assert_values(self, got: Any, expected: Any, op: Any, sample: Any, **loose: float) -> None:
        """Equal as torch's tests have it, or the values of inputs that differ by some roundings."""
        pairs = list(zip(_tensors(got), _tensors(expected), strict=True))
        try:
            for one, other in pairs:
                self.assertEqual(one.cpu(), other.cpu(), **loose)
        except AssertionError:
            if not all(other.is_floating_point() and one.shape == other.shape for one, other in pairs):
                raise
            exact, moved = self._in_float64(op, sample), self._in_float64(op, sample, moved=True)
            if len(exact) != len(pairs):
                raise
            for (one, _), right, beside in zip(pairs, exact, moved, strict=True):
                rounding = torch.finfo(one.dtype).eps * float(right.abs().max())
                if not _error(one, right) <= ROUNDINGS * (_error(beside, right) + rounding):
                    raise

    def _in_float64(self, op: Any, sample: Any, moved: bool = False) -> list[torch.Tensor]:
        """The values in float64; `moved`: of inputs that differ by a rounding each."""

        def widened(value: Any) -> Any:
            if not _strided(value) or not value.is_floating_point():
                return value
            wide = value.detach().double()
            up = torch.rand(wide.shape, generator=torch.Generator().manual_seed(5)) < 0.5
            return wide * (1 + torch.finfo(value.dtype).eps * (up * 2.0 - 1)) if moved else wide

        given, arguments, named = tree_map(widened, (sample.input, sample.args, sample.kwargs))
        torch.manual_seed(3)
        try:
            return _tensors(op(given, *arguments, **named))
        except Exception:
            return []

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_op_basic_functionality(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """The first sample, made on the device, gives results on the device."""
        sample = next(iter(op.sample_inputs(device, dtype)))
        result = op(sample.input, *sample.args, **sample.kwargs)
        for tensor in _tensors(result):
            self.assertEqual(tensor.device.type, torch.device(device).type)

    @ops([op for op in op_db if op.supports_out], allowed_dtypes=(torch.float32,))
    def test_out_argument(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """What is given as out= is what comes back, where it was, with the right values."""
        for sample in self._samples(op, dtype):
            given, arguments, named = _moved(sample, device, op)
            expected = op(given, *arguments, **named)
            if not isinstance(expected, torch.Tensor):
                return
            out = torch.empty_like(expected)
            address = out.data_ptr()
            result = op(given, *arguments, **named, out=out)
            self.assertIs(result, out)
            self.assertEqual(out.data_ptr(), address)
            if op.name not in NO_VALUES:
                torch.manual_seed(3)
                expected = op(given, *arguments, **named)
                torch.manual_seed(3)
                op(given, *arguments, **named, out=out)
                self.assertEqual(out, expected)

    @ops(op_db, allowed_dtypes=(torch.float32,))
    def test_noncontiguous_samples(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Other strides give the same values, forward and backward."""
        if op.is_factory_function or op.name in NO_VALUES:
            raise unittest.SkipTest("no input, or no values")
        learns = dtype in op.supported_backward_dtypes(torch.device(device).type)
        for sample in self._samples(op, dtype, requires_grad=learns):
            plain = _moved(sample, device, op)
            other = tree_map(lambda t: noncontiguous_like(t) if _strided(t) else t, plain)
            results, gradients = [], []
            for given, arguments, named in (plain, other):
                torch.manual_seed(3)
                result = op(given, *arguments, **named)
                results.append(result)
                if not learns:
                    continue
                answers = [t for t in _tensors(sample.output_process_fn_grad(result)) if t.requires_grad]
                inputs = [t for t in _tensors((given, arguments, named)) if t.requires_grad]
                if answers and inputs:
                    weights = [torch.ones_like(t) for t in answers]
                    gradients.append(torch.autograd.grad(answers, inputs, weights, allow_unused=True))
            self._assert_values(results[1], results[0], op, sample)
            if len(gradients) == 2:
                self.assertEqual(gradients[0], gradients[1], atol=1e-5, rtol=1e-5)

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_values_of_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Every sample gives what the CPU gives: values, types, shapes; random operators from one seed."""
        for sample in self._samples(op, dtype):
            given, arguments, named = _moved(sample, device, op)
            torch.manual_seed(3)
            expected = _on_cpu(lambda: op(sample.input, *sample.args, **sample.kwargs))  # noqa: B023
            torch.manual_seed(3)
            got = op(given, *arguments, **named)
            expected_tensors, got_tensors = _tensors(expected), _tensors(got)
            self.assertEqual(len(got_tensors), len(expected_tensors))
            for one, other in zip(got_tensors, expected_tensors, strict=True):
                self.assertEqual(one.shape, other.shape)
                self.assertEqual(one.dtype, other.dtype)
            if op.name not in NO_VALUES:
                # Sums of bfloat16 in another order, as attention by products has it, differ in the last digits.
                loose = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {}
                self._assert_values(got_tensors, expected_tensors, op, sample, **loose)

    @ops([op for op in op_db if op.error_inputs_func is not None], allowed_dtypes=(torch.float32,))
    def test_errors(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """What the CPU refuses with an error is refused with one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for wrong in op.error_inputs("cpu"):
                sample = wrong.sample_input
                try:
                    op(sample.input, *sample.args, **sample.kwargs)
                except Exception:
                    given, arguments, named = _moved(sample, device, op)
                    with self.assertRaises(Exception, msg=str(sample)):  # noqa: B017
                        op(given, *arguments, **named)
                        torch.accelerator.synchronize()


def instantiate(name: str) -> dict[str, type]:
    """The test classes of the device `name` and of the CPU."""
    bases = common_device_type.device_type_test_bases
    if common_device_type.PrivateUse1TestBase not in bases:  # torch was imported before the device was opened
        bases.append(common_device_type.PrivateUse1TestBase)
    # Torch had the device's name when it was imported, which was another.
    common_device_type.NATIVE_DEVICES = (*common_device_type.NATIVE_DEVICES, name)
    scope: dict[str, Any] = {"TestOpInfo": TestOpInfo, "__name__": __name__}
    instantiate_device_type_tests(TestOpInfo, scope, only_for=("cpu", name))
    return {key: value for key, value in scope.items() if isinstance(value, type) and value is not TestOpInfo}
