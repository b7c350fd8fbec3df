"""Shows that the host's tokenizer manager refuses requests that no worker could serve, and takes apart right ones."""

import json
from types import SimpleNamespace

import sglang.srt.platforms  # noqa: F401 - the launcher has it by the time it loads plugins
from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.managers.io_struct import GenerateReqInput  # noqa: E402 - hooks first, as in a launcher
from sglang.srt.managers.tokenizer_manager import TokenizerManager  # noqa: E402

MANAGER = SimpleNamespace(
    model_config=SimpleNamespace(vocab_size=100, hidden_size=4), context_len=32, mm_processor=None
)


def told(**request):
    """What is said of a request, before the host's own rules."""
    try:
        made = GenerateReqInput(**request)
        made.normalize_batch_and_arguments()
        for one in [made] if made.is_single else [made[i] for i in range(made.batch_size)]:
            TokenizerManager._validate_one_request(MANAGER, one, one.input_ids)
    except ValueError as error:
        return str(error)
    return "served"


print(
    json.dumps(
        {
            "token": told(input_ids=[100]),
            "negative": told(input_ids=[[-1], [1]]),
            "n": told(input_ids=[1], sampling_params={"n": 10**9}),
            "mapping": told(input_ids=[1], sampling_params="a"),
            "lists": told(input_ids=[[1], [2]], sampling_params=[{}]),
            "logprobs": told(input_ids=[1], return_logprob=True, top_logprobs_num=101),
            "bias": told(input_ids=[1], sampling_params={"logit_bias": {"100": 1.0}}),
            "kind": told(input_ids=[1], sampling_params={"temperature": "hot"}),
            "image": told(input_ids=[1], image_data="data:,x"),
            # The host's own rules find no manager to speak of: ours had nothing to say.
            "right": told(input_ids=[1, 99], sampling_params={"temperature": 0, "n": 2}),
        }
    )
)
