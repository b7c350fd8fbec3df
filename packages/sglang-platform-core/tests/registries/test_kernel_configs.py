"""Kernel configurations: tested ones as they are, one warning for each other device."""

from __future__ import annotations

import logging

import pytest

from sglang_platform.core.registries.kernel_configs import config_for


def test_an_untested_device_gets_the_conservative_one_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tested = {"sm_90": 128, "sm_80": 64}
    with caplog.at_level(logging.WARNING):
        assert config_for("decode", "sm_90", tested, 16) == 128
        assert not caplog.records
        assert config_for("decode", "sm_75", tested, 16) == 16
        assert config_for("decode", "sm_75", tested, 16) == 16
        assert config_for("store", "sm_75", tested, 8) == 8
    assert [record.getMessage().split()[0] for record in caplog.records] == ["decode", "store"]
    assert "tuned for: sm_80, sm_90" in caplog.text
