"""Streams and events: what runs beside the host, in which order, and where a failure shows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch


def test_a_queued_failure_reaches_the_next_wait_and_only_that(device_type: str) -> None:
    x = torch.randn(3, 3).to(device_type)
    x[:, torch.tensor([7]).to(device_type)]
    with pytest.raises(IndexError, match="out of bounds"):
        torch.accelerator.synchronize()
    torch.accelerator.synchronize()
    assert (x + 1).sum().item() != 0


def test_the_host_goes_on_while_the_device_works(device_type: str, device: ModuleType) -> None:
    x = torch.randn(1200, 1200).to(device_type)
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


def test_streams_without_number_share_threads_and_memory(device_type: str, device: ModuleType) -> None:
    x = torch.ones(4, device=device_type)
    seen, reserved = set(), []
    for _ in range(4):
        for _ in range(50):
            one = device.Stream()
            seen.add(one.stream_id)
            with device.stream(one):
                y = x + 1
                y.record_stream(device.default_stream())
        torch.accelerator.synchronize()
        reserved.append(device.memory_reserved())
    assert len(seen) <= 32
    assert reserved[-1] == reserved[1]
    assert len(list(Path("/proc/self/task").iterdir())) < 500
    assert y.tolist() == [2] * 4


def test_a_generator_of_a_device_that_is_not_there_is_refused(device_type: str) -> None:
    with pytest.raises(IndexError, match="there is no device 9"):
        torch.Generator(f"{device_type}:9")


def test_streams_run_side_by_side_and_events_order_them(device_type: str, device: ModuleType) -> None:
    slow, fast = device.Stream(), device.Stream()
    x = torch.randn(1500, 1500).to(device_type)
    torch.accelerator.synchronize()
    for products in (4, 16, 64):  # as above
        with device.stream(slow):
            y = x
            for _ in range(products):
                y = y @ x * 1e-2
            done = device.Event()
            done.record()
        with device.stream(fast):
            z = torch.ones(4, device=device_type) + 1
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
