"""The process that holds one SGLang engine and answers requests on a pipe, one JSON object a line.

Its own process, since a crash in SGLang's scheduler kills the scheduler's parent. Run by `engine.EngineProcess`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from sglang_platform.core.sglang.evidence.llm_counts import GAUGE_METHOD

__all__: list[str] = []


class _Worker:
    def __init__(self, arguments: dict[str, Any]) -> None:
        import sglang

        self.engine = sglang.Engine(**arguments)

    def generate(
        self, input_ids: list[list[int]], max_new_tokens: int, **sampling: Any
    ) -> list[dict[str, Any]]:
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True, **sampling}
        outputs = self.engine.generate(input_ids=input_ids, sampling_params=parameters)
        return [_reply(output) for output in outputs]

    def stream_text(self, prompt: str, max_new_tokens: int) -> Generator[str, None, dict[str, Any]]:
        """Yield the greedy answer to `prompt` piece by piece, then return the reply with its seconds.

        A tokenizer with a chat template gets the prompt as a user's message.
        """
        asked: dict[str, Any] = {"prompt": prompt}
        tokenizer = self.engine.tokenizer_manager.tokenizer
        if getattr(tokenizer, "chat_template", None):
            message = [{"role": "user", "content": prompt}]
            asked = {
                "input_ids": tokenizer.apply_chat_template(
                    message, add_generation_prompt=True, return_dict=False
                )
            }
        start, text, output = time.perf_counter(), "", {}
        sampling = {"temperature": 0.0, "max_new_tokens": max_new_tokens}
        for output in self.engine.generate(**asked, sampling_params=sampling, stream=True):
            yield output["text"].removeprefix(text)
            text = output["text"]
        return {**_reply(output), "seconds": time.perf_counter() - start}

    def generate_constrained(
        self, input_ids: list[list[int]], max_new_tokens: int, **constraint: Any
    ) -> list[dict[str, Any]]:
        """Greedy answers that end where the grammar ends, with their text."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, **constraint}
        outputs = self.engine.generate(input_ids=input_ids, sampling_params=parameters)
        return [{**_reply(output), "text": output["text"]} for output in outputs]

    def generate_mixed(
        self, plain: list[list[int]], constrained: list[list[int]], max_new_tokens: int, **constraint: Any
    ) -> list[list[int]]:
        """Constrained requests and plain ones in one batch; the tokens of the plain ones."""
        common = {"temperature": 0.0, "max_new_tokens": max_new_tokens}
        parameters = [{**common, "ignore_eos": True} for _ in plain]
        parameters += [{**common, **constraint} for _ in constrained]
        outputs = self.engine.generate(input_ids=[*plain, *constrained], sampling_params=parameters)
        return [output["output_ids"] for output in outputs[: len(plain)]]

    def chat(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What `/v1/chat/completions` answers to requests that come at once: the host's handler, without HTTP."""
        from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
        from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat

        serving = OpenAIServingChat(self.engine.tokenizer_manager, self.engine.template_manager)

        async def answered() -> list[Any]:
            asked = (serving.handle_request(ChatCompletionRequest(**body), None) for body in bodies)
            return await asyncio.gather(*asked)

        answers = self.engine.loop.run_until_complete(answered())
        # A refusal is a response of the web framework, whose body is bytes.
        return [
            json.loads(one.body) if hasattr(one, "body") else one.model_dump(mode="json") for one in answers
        ]

    def generate_adapted(
        self, input_ids: list[list[int]], lora_path: list[str | None], max_new_tokens: int
    ) -> list[list[int]]:
        """Greedy tokens, each request with its LoRA adapter or none."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(input_ids=input_ids, sampling_params=parameters, lora_path=lora_path)
        return [output["output_ids"] for output in outputs]

    def encode(self, input_ids: list[list[int]]) -> list[list[float]]:
        """The values of an embedding or reward model for each prompt."""
        from sglang.srt.managers.io_struct import EmbeddingReqInput

        generator = self.engine.tokenizer_manager.generate_request(
            EmbeddingReqInput(input_ids=input_ids), None
        )
        outputs = self.engine.loop.run_until_complete(generator.__anext__())
        return [_values(output["embedding"]) for output in outputs]

    def generate_with_pictures(
        self, prompts: list[str], pictures: list[str], max_new_tokens: int
    ) -> list[list[int]]:
        """Greedy tokens for each prompt with its picture, given as a file."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(prompt=prompts, image_data=pictures, sampling_params=parameters)
        return [output["output_ids"] for output in outputs]

    def generate_each(
        self, input_ids: list[list[int]], sampling: list[dict[str, Any]], max_new_tokens: int
    ) -> list[list[int]]:
        """Greedy tokens in one batch, each request with parameters of its own beside the common ones."""
        common = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(
            input_ids=input_ids, sampling_params=[{**common, **own} for own in sampling]
        )
        return [output["output_ids"] for output in outputs]

    def generate_logprobs(
        self, input_ids: list[list[int]], max_new_tokens: int, top: int
    ) -> list[dict[str, Any]]:
        """Greedy tokens with the log probabilities of prompt and answer (None for the first token), and the `top`
        likeliest tokens of each step of the answer."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(
            input_ids=input_ids,
            sampling_params=parameters,
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=top,
        )
        return [
            {
                "output_ids": output["output_ids"],
                "prompt": [one[0] for one in output["meta_info"]["input_token_logprobs"]],
                "answer": [one[0] for one in output["meta_info"]["output_token_logprobs"]],
                "top": [[one[1] for one in step] for step in output["meta_info"]["output_top_logprobs"]],
            }
            for output in outputs
        ]

    def generate_chosen_logprobs(
        self, input_ids: list[list[int]], chosen: list[list[int] | None], max_new_tokens: int
    ) -> list[dict[str, Any]]:
        """Greedy tokens in one batch, with the log probabilities of each step's `chosen` tokens; None asks for none."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(
            input_ids=input_ids, sampling_params=parameters, return_logprob=True, token_ids_logprob=chosen
        )
        return [
            {
                "output_ids": output["output_ids"],
                "chosen": [
                    [one[0] for one in step or []]
                    for step in output["meta_info"].get("output_token_ids_logprobs") or []
                ],
            }
            for output in outputs
        ]

    def hidden_states(self, input_ids: list[int], max_new_tokens: int) -> dict[str, Any]:
        """Greedy tokens, and the hidden states from which they came: those of the prompt's tokens, then one a step."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        output = self.engine.generate(
            input_ids=input_ids, sampling_params=parameters, return_hidden_states=True
        )
        of_prompt, *of_steps = output["meta_info"]["hidden_states"]
        return {"output_ids": output["output_ids"], "rows": [*of_prompt, *of_steps]}

    def generate_with_hidden_states(
        self, input_ids: list[list[int]], wanted: list[bool], max_new_tokens: int
    ) -> list[list[int]]:
        """Greedy tokens; some of the requests ask for the hidden states of each step as well."""
        parameters = {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True}
        outputs = self.engine.generate(
            input_ids=input_ids, sampling_params=parameters, return_hidden_states=wanted
        )
        return [output["output_ids"] for output in outputs]

    def abort(self, input_ids: list[int], after_tokens: int) -> dict[str, Any]:
        """Start a long request, abort it once it has streamed some tokens, and tell how it ended."""

        async def run() -> dict[str, Any]:
            rid = "to-be-aborted"
            stream = await self.engine.async_generate(
                input_ids=input_ids,
                sampling_params={"temperature": 0.0, "max_new_tokens": 4096, "ignore_eos": True},
                stream=True,
                rid=rid,
            )
            last: dict[str, Any] = {}
            asked = False
            async for output in stream:
                last = output
                if not asked and output["meta_info"]["completion_tokens"] >= after_tokens:
                    asked = True
                    self.engine.tokenizer_manager.abort_request(rid)
            return {
                "finish_reason": last["meta_info"]["finish_reason"],
                "completion_tokens": last["meta_info"]["completion_tokens"],
            }

        return self.engine.loop.run_until_complete(run())  # type: ignore[no-any-return]

    def gauges(self) -> None:
        self.engine.collective_rpc(GAUGE_METHOD)

    def flush_cache(self) -> bool:
        result = self.engine.flush_cache()
        return bool(getattr(result, "success", True))

    def update_weights(self, model_path: str, recapture: bool) -> str:
        """Load another checkpoint of the same shape into the running engine; raises with the host's words."""
        from sglang.srt.managers.io_struct import UpdateWeightFromDiskReqInput

        request = UpdateWeightFromDiskReqInput(model_path=model_path, recapture_cuda_graph=recapture)
        update = self.engine.tokenizer_manager.update_weights_from_disk(request, None)
        success, message, *_ = self.engine.loop.run_until_complete(update)
        if not success:
            raise RuntimeError(message)
        return str(message)

    def release_memory(self, tags: list[str] | None = None) -> None:
        """Give device memory back; the host's tags are `kv_cache`, `weights`, `cuda_graph`, None for all."""
        self.engine.release_memory_occupation(tags=tags)

    def resume_memory(self, tags: list[str] | None = None) -> None:
        """Take it again."""
        self.engine.resume_memory_occupation(tags=tags)

    def server_args(self, names: list[str]) -> dict[str, Any]:
        info = self.engine.get_server_info()
        return {name: info.get(name) for name in names}

    def shutdown(self) -> None:
        self.engine.shutdown()


def _values(embedding: Any) -> list[float]:
    return [float(value) for value in (embedding if isinstance(embedding, list) else [embedding])]


def _reply(output: dict[str, Any]) -> dict[str, Any]:
    meta = output["meta_info"]
    return {
        "output_ids": output["output_ids"],
        "prompt_tokens": meta["prompt_tokens"],
        "cached_tokens": meta.get("cached_tokens", 0),
        "finish_reason": meta["finish_reason"],
        "verified_steps": meta.get("spec_verify_ct"),
    }


def _result(answer: Any, reply: Callable[[dict[str, Any]], None]) -> Any:
    """The answer of a call; what a generator yields is sent at once, and what it returns is the answer."""
    if not isinstance(answer, Generator):
        return answer
    while True:
        try:
            reply({"part": next(answer)})
        except StopIteration as end:
            return end.value


def _serve() -> None:
    # The engine's processes print to standard output; replies go to a private copy of it.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    arguments = json.loads(sys.stdin.readline())
    worker = _Worker(arguments)

    def reply(body: dict[str, Any]) -> None:
        replies.write(json.dumps(body) + "\n")
        replies.flush()

    reply({"result": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply({"result": _result(getattr(worker, request["call"])(**request["arguments"]), reply)})
        except Exception as error:  # noqa: BLE001 - every failure is handed to the caller, who raises it
            reply({"error": f"{type(error).__name__}: {error}"})
        if request["call"] == "shutdown":
            break


if __name__ == "__main__":
    # Spawned children import this file again as __mp_main__; the engine must start in the main process only.
    sys.path = [
        entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    _serve()
