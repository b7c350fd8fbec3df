"""`sglang serve` with the example platform answers the openai client, and stops when told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.stacks import kill_tree, stacks
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

START_SECONDS = 180


@pytest.fixture(scope="module")
def checkpoint(models: Path) -> Path:
    return make_checkpoint(models / "llama", "llama")


@pytest.fixture(scope="module")
def report_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def server(checkpoint: Path, report_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [
        Path(sys.executable).with_name("sglang"),
        "serve",
        "--model-path",
        checkpoint,
    ]
    command += [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--dtype",
        "float32",
        "--mem-fraction-static",
        "0.5",
    ]
    command += ["--max-total-tokens", "4096", "--page-size", "16", "--torch-compile-max-bs", "4"]
    command += [
        "--attention-backend",
        "example_oot",
    ]  # the name that the command line learns from the platform
    environment = {**os.environ, "SGLANG_PLATFORM": "example_oot", REPORT_DIR_VARIABLE: str(report_dir)}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_SECONDS
    while not _healthy(url):
        if process.poll() is not None or time.monotonic() > deadline:
            where = stacks(process.pid) if process.poll() is None else ""
            kill_tree(process.pid)
            pytest.fail(f"the server did not come up:\n{log.read_text()[-4000:]}\n{where}")
        time.sleep(0.5)
    yield url
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("the server did not stop within 30 s of SIGTERM")


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def client(server: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server}/v1", api_key="none")


def test_completion_gives_the_reference_text(client: openai.OpenAI, checkpoint: Path) -> None:
    (prompt,) = reference.prompts([20], seed=3)
    (expected,) = reference.greedy(checkpoint, [prompt], 16)
    answer = client.completions.create(
        model="model", prompt=prompt, max_tokens=16, temperature=0, extra_body={"ignore_eos": True}
    )
    from transformers import AutoTokenizer

    text = AutoTokenizer.from_pretrained(checkpoint).decode(expected, skip_special_tokens=True)
    assert answer.choices[0].text.strip("\ufffd") == text.strip("\ufffd")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="model",
        messages=[{"role": "user", "content": "Hello, who are you?"}],
        max_tokens=12,
        temperature=0,
    )
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert 1 <= answer.usage.completion_tokens <= 12


def test_streaming_adds_up_to_the_whole_answer(client: openai.OpenAI) -> None:
    asked = {
        "model": "model",
        "messages": [{"role": "user", "content": "Count."}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = client.chat.completions.create(**asked).choices[0].message.content  # type: ignore[call-overload]
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(stream=True, **asked)  # type: ignore[call-overload]
        if chunk.choices
    ]
    assert len(pieces) > 1
    assert "".join(pieces) == whole


def test_the_example_platform_did_the_work(client: openai.OpenAI, report_dir: Path) -> None:
    client.completions.create(model="model", prompt="Hello", max_tokens=4, temperature=0)
    schedulers = [c for c in counters.read_all(report_dir).values() if c.get("host.process.scheduler")]
    assert len(schedulers) == 1
    assert schedulers[0]["example_oot.attention.extends"] > 0
    assert schedulers[0]["example_oot.graph.replays"] > 0
    assert schedulers[0]["host.attention.calls"] == 0
