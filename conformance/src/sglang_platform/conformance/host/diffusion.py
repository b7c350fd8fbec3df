"""Pictures made by SGLang's diffusion runtime in a process of its own, and how far two of them are apart.

`python -m sglang_platform.conformance.host.diffusion --platform NAME --to FOLDER` makes the picture on the host's own
CPU platform and on NAME with the same seed, saves both, and prints the largest difference and the proof counters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.diffusion_pipeline import MODEL_ID, make_pipeline
from sglang_platform.conformance.host.kept_folder import kept_folder
from sglang_platform.conformance.host.stacks import stacks
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE
from sglang_platform.core.discovery.kind import DIFFUSION, SRT

__all__ = ["GenerationFailed", "Picture", "ask_worker", "difference", "generate", "reference_picture"]

REFERENCE = "cpu"
"""The host's own platform that a picture is held to."""

_LAST_LINES = 40


class GenerationFailed(RuntimeError):
    """The server did not start, died, or made no picture; the message ends with its last lines of output."""


@dataclass(frozen=True)
class Picture:
    """What one run gave."""

    path: Path
    counters: dict[str, int]
    """Summed over the processes that hold a worker of the diffusion runtime."""

    identity: dict[str, Any]
    """Class, device and memory of the platform that the diffusion runtime ended on."""

    llm_device: dict[str, str]
    """The device of the LLM runtime's platform in the same process."""

    output: str


def generate(
    platform: str,
    pipeline: Path,
    to: Path,
    *,
    llm_platform: str | None = None,
    prompt: str = "a cat on a mat",
    size: int = 128,
    steps: int = 4,
    guidance: float = 0.0,
    seed: int = 7,
    environment: dict[str, str] | None = None,
    timeout: float = 600,
    **server: Any,
) -> Picture:
    """Serve `pipeline` in float32 on the diffusion platform `platform` and save one PNG at `to`.

    `llm_platform` names the LLM runtime's platform in the same processes, some of whose layers the diffusion runtime
    borrows. `server` are further arguments of the host's `ServerArgs`. Raises GenerationFailed.
    """
    with tempfile.TemporaryDirectory(prefix="sglang-platform-diffusion-") as scratch:
        report, answer = Path(scratch) / "report", Path(scratch) / "answer.json"
        request = {
            "server": {
                "model_path": str(pipeline),
                "model_id": MODEL_ID,
                "backend": "sglang",
                "num_gpus": 1,
                "dit_precision": "fp32",
                "vae_precision": "fp32",
                "text_encoder_precisions": ["fp32"],
                **server,
            },
            "sampling": {
                "prompt": prompt,
                "width": size,
                "height": size,
                "num_inference_steps": steps,
                "guidance_scale": guidance,
                "seed": seed,
                # Noise from the CPU's generator, so that one seed is one picture on every device.
                "generator_device": "cpu",
                "output_path": str(to.parent),
                "output_file_name": to.name,
                "save_output": True,
            },
            "answer": str(answer),
        }
        variables = {
            **os.environ,
            DIFFUSION.variable: platform,
            REPORT_DIR_VARIABLE: str(report),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            **({SRT.variable: llm_platform} if llm_platform else {}),
            **(environment or {}),
        }
        if llm_platform is None and SRT.variable not in (environment or {}):
            variables.pop(SRT.variable, None)
        to.unlink(missing_ok=True)
        output = ask_worker(request, variables, timeout)
        if not answer.exists() or not to.exists():
            raise GenerationFailed(f"no picture was made; the last lines:\n{_tail(output)}")
        found = json.loads(answer.read_text())
        return Picture(to, _counts(report), found["diffusion"], found["llm_device"], output)


def reference_picture(pipeline: Path) -> Path:
    """The picture of the host's own CPU platform. It is kept beside the pipeline, for the versions that made it.

    Raises GenerationFailed.
    """
    versions = {name: version(name) for name in ("sglang", "torch", "diffusers", "transformers")}
    made_from = json.loads((pipeline / "complete.json").read_text())
    wanted = {"pipeline": made_from, "asked": generate.__kwdefaults__, "versions": versions}
    name = "host_cpu.png"
    kept = pipeline.with_name(f"{pipeline.name}-picture")
    return kept_folder(kept, wanted, lambda new: generate(REFERENCE, pipeline, new / name)) / name


def difference(one: Path, other: Path) -> int:
    """The largest difference of two pictures in any channel of any pixel, of 255. Raises ValueError if their sizes
    differ."""
    import numpy as np
    from PIL import Image

    pixels = [np.asarray(Image.open(path).convert("RGB")).astype(np.int16) for path in (one, other)]
    if pixels[0].shape != pixels[1].shape:
        raise ValueError(f"{one.name} is {pixels[0].shape}, {other.name} is {pixels[1].shape}")
    return int(np.abs(pixels[0] - pixels[1]).max())


def ask_worker(request: dict[str, Any], variables: dict[str, str], timeout: float) -> str:
    """What the diffusion worker printed for one request. It and its server are ended where they take longer, and where
    the wait is interrupted."""
    command = [sys.executable, "-m", "sglang_platform.conformance.host.diffusion_worker"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=variables,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(json.dumps(request), timeout)
        except subprocess.TimeoutExpired:
            where = stacks(process.pid)
            _end(process)
            output, _ = process.communicate()
            raise GenerationFailed(
                f"nothing after {timeout:.0f} s; the last lines:\n{_tail(output)}\nits stacks:\n{where}"
            ) from None
        except BaseException:  # interrupted, as by a test's limit: leaving the block waits for the process
            print(stacks(process.pid), file=sys.stderr)
            _end(process)
            raise
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """End the server with the workers that it spawned, which are in its session."""
    import signal

    os.killpg(process.pid, signal.SIGKILL)


def _counts(report: Path) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in counters.read_all(report).values():
        if counts.get("host.diffusion.worker"):
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
    return total


def _tail(output: str) -> str:
    return "\n".join(output.splitlines()[-_LAST_LINES:])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--platform", required=True, help="a platform of the diffusion runtime, by entry-point name"
    )
    parser.add_argument("--llm-platform", help="the LLM runtime's platform in the same processes")
    parser.add_argument("--to", type=Path, default=Path("pictures"), help="the folder for both pictures")
    parser.add_argument("--size", type=int, default=128, help="width and height in pixels, a multiple of 16")
    parser.add_argument("--steps", type=int, default=4, help="denoising steps")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    pipeline = make_pipeline(options.to / "pipeline")
    made = []
    for platform, llm in ((REFERENCE, None), (options.platform, options.llm_platform)):
        print(f"{platform}: starting the server (about a minute)", flush=True)
        to = (options.to / f"{platform}.png").resolve()
        made.append(
            generate(
                platform, pipeline.resolve(), to, llm_platform=llm, size=options.size, steps=options.steps
            )
        )
        print(f"{platform}: {to} on {made[-1].identity}", flush=True)
    apart = difference(made[0].path, made[1].path)
    print(f"largest difference: {apart}/255")
    for name, count in sorted(made[1].counters.items()):
        if count:
            print(f"  {name}: {count}")
    return 0 if apart <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
