"""What torch asks of OpenReg in `test_streams.py` and `test_event.py`, asked here of our device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _stream_0_again(device_type: str) -> Iterator[None]:
    before = torch.accelerator.current_stream()
    yield
    torch.accelerator.set_stream(before)
    torch.accelerator.set_device_index(0)


def test_stream_create(device_type: str) -> None:
    assert torch.Stream(device=device_type).device_index == 0
    stream = torch.Stream(device=f"{device_type}:1")
    assert stream.device == torch.device(device_type, 1)
    same = torch.Stream(
        stream_id=stream.stream_id, device_type=stream.device_type, device_index=stream.device_index
    )
    assert same == stream


def test_stream_context(device_type: str) -> None:
    with torch.Stream(device=f"{device_type}:1") as stream:
        assert torch.accelerator.current_stream() == stream


def test_stream_switch(device_type: str) -> None:
    for index in (0, 1):
        stream = torch.Stream(device=f"{device_type}:{index}")
        torch.accelerator.set_stream(stream)
        assert torch.accelerator.current_stream() == stream


def test_a_stream_that_was_never_made_is_refused(device_type: str) -> None:
    for number in (10**6, -1):
        wrong = torch.Stream(stream_id=number, device_index=0, device_type=20)
        with pytest.raises((RuntimeError, IndexError), match="has no stream"):
            torch.accelerator.set_stream(wrong)
        with pytest.raises((RuntimeError, IndexError), match="has no stream"):
            wrong.synchronize()
    assert torch.ones(3, device=device_type).sum().item() == 3


def test_stream_synchronize(device_type: str) -> None:
    stream = torch.Stream(device=f"{device_type}:1")
    assert stream.query()
    torch.Event(f"{device_type}:1").record(stream)
    stream.synchronize()
    assert stream.query()


def test_stream_repr(device_type: str) -> None:
    assert f"device_type={device_type}, device_index=1" in repr(torch.Stream(device=f"{device_type}:1"))


def test_stream_wait_stream(device_type: str) -> None:
    """What the waiting stream does comes after what the other was given before."""
    first, second = torch.Stream(device=f"{device_type}:0"), torch.Stream(device=f"{device_type}:0")
    x, busy = torch.zeros(4, device=device_type), torch.randn(500, 500, device=device_type)
    torch.accelerator.synchronize()
    with first:
        for _ in range(3):
            busy = (busy @ busy) * 1e-3
        x.add_(1)
    second.wait_stream(first)
    with second:
        x.mul_(10)
    torch.accelerator.synchronize()
    assert x.tolist() == [10] * 4


def test_event_create(device_type: str) -> None:
    for event in (torch.Event(device=device_type), torch.Event(device=f"{device_type}:1"), torch.Event()):
        assert event.device.type == device_type
        assert event.event_id == 0
    event = torch.Stream(device=f"{device_type}:1").record_event()
    assert event.device.index == 1
    assert event.event_id != 0


def test_event_record(device_type: str) -> None:
    stream = torch.Stream(device=f"{device_type}:1")
    events = [stream.record_event() for _ in range(2)]
    assert events[0].event_id != events[1].event_id
    events[1].synchronize()
    assert all(event.query() for event in events)


def test_event_elapsed_time(device_type: str) -> None:
    begin, end = (torch.Event(device_type, enable_timing=True) for _ in range(2))
    begin.record()
    torch.randn(400, 400, device=device_type) @ torch.randn(400, 400, device=device_type)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0


def test_event_timing_disabled(device_type: str) -> None:
    begin, end = (torch.Event(device_type, enable_timing=False) for _ in range(2))
    begin.record()
    end.record()
    end.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing=True"):
        begin.elapsed_time(end)


def test_event_wait_event(device_type: str) -> None:
    first, second = torch.Stream(device=device_type), torch.Stream(device=device_type)
    event = first.record_event()
    second.wait_event(event)
    second.synchronize()
    assert event.query()


def test_multiple_streams_wait_same_event(device_type: str) -> None:
    x, results = torch.randn(30, 30, device=device_type), []
    event = torch.accelerator.current_stream().record_event()
    for _ in range(3):
        stream = torch.Stream(device=device_type)
        stream.wait_event(event)
        with stream:
            results.append(x @ x)
    torch.accelerator.synchronize()
    assert all(torch.equal(result.cpu(), results[0].cpu()) for result in results)


def test_event_lifecycle(device_type: str) -> None:
    stream, event = torch.Stream(device=device_type), torch.Event(device=device_type)
    for _ in range(3):
        event.record(stream)
        stream.synchronize()
        assert event.query()
