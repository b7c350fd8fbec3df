"""SGLang with its scheduler as an actor under Ray: greedy tokens as JSON. `../test_ray.py` runs it."""

import json
import sys

import ray
from sglang.srt.ray.engine import RayEngine

if __name__ == "__main__":
    model, new_tokens, prompts = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    # SGLang asks Ray for GPUs whatever the device is: to Ray a number, which need not be there.
    ray.init(num_cpus=4, num_gpus=1, include_dashboard=False)
    engine = RayEngine(
        model_path=model,
        use_ray=True,
        page_size=16,
        dtype="float32",
        sampling_backend="pytorch",
        mem_fraction_static=0.5,
        max_total_tokens=4096,
        cuda_graph_bs_decode=[1, 4],
        random_seed=0,
        log_level="info",
    )
    sampling = {"temperature": 0.0, "max_new_tokens": new_tokens, "ignore_eos": True}
    outputs = engine.generate(input_ids=prompts, sampling_params=sampling)
    print("answers", json.dumps([output["output_ids"] for output in outputs]), flush=True)
    engine.shutdown()
    ray.shutdown()
