"""Tests of torch's operators on the device, one per entry of torch's `op_db`, type and question.

The first three ask what torch asks of its own reference device for PrivateUse1 (`test_opinfo.py` of OpenReg), under the
same names.
"""

# ruff: noqa: PT009, PT027, BLE001 - torch's own way to make tests is unittest's; any error is a refusal
from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_device_type
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, noncontiguous_like
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.bfloat16, torch.int64)
NO_VALUES = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")


def _moved(sample: Any, device: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Input, arguments and keywords of a sample, with all tensors and devices on `device`."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            # Strides as they are: a sample may be about them.
            there = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
            return (
                there.copy_(value).requires_grad_(value.requires_grad)
                if value.layout == torch.strided
                else value
            )
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device)
        return value

    with torch.no_grad():
        return tree_map(move, (sample.input, sample.args, sample.kwargs))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_flatten(value)[0] if isinstance(one, torch.Tensor)]


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
            given, arguments, named = _moved(sample, device)
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
            plain = _moved(sample, device)
            other = tree_map(lambda t: noncontiguous_like(t) if isinstance(t, torch.Tensor) else t, plain)
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
            self.assertEqual(results[0], results[1])
            if len(gradients) == 2:
                self.assertEqual(gradients[0], gradients[1])

    @ops(op_db, allowed_dtypes=DTYPES)
    def test_values_of_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Every sample gives what the CPU gives: values, types, shapes; random operators from one seed."""
        for sample in self._samples(op, dtype):
            given, arguments, named = _moved(sample, device)
            torch.manual_seed(3)
            expected = _on_cpu(lambda: op(sample.input, *sample.args, **sample.kwargs))  # noqa: B023
            torch.manual_seed(3)
            got = op(given, *arguments, **named)
            expected_tensors, got_tensors = _tensors(expected), _tensors(got)
            self.assertEqual(len(got_tensors), len(expected_tensors))
            for one, other in zip(got_tensors, expected_tensors, strict=True):
                self.assertEqual(one.dtype, other.dtype)
                self.assertEqual(one.shape, other.shape)
                if op.name not in NO_VALUES:
                    # Sums of bfloat16 in another order, as attention by products has it, differ in the last digits.
                    loose = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {}
                    self.assertEqual(one.cpu(), other, **loose)

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
                    given, arguments, named = _moved(sample, device)
                    with self.assertRaises(Exception, msg=str(sample)):  # noqa: B017
                        op(given, *arguments, **named)
                        torch.accelerator.synchronize()


def instantiate(name: str) -> dict[str, type]:
    """The test classes of the device `name`."""
    bases = common_device_type.device_type_test_bases
    if common_device_type.PrivateUse1TestBase not in bases:  # torch was imported before the device was opened
        bases.append(common_device_type.PrivateUse1TestBase)
    scope: dict[str, Any] = {"TestOpInfo": TestOpInfo, "__name__": __name__}
    instantiate_device_type_tests(TestOpInfo, scope, only_for=(name,))
    return {key: value for key, value in scope.items() if isinstance(value, type) and value is not TestOpInfo}
