"""For each feature of the engine and each part that it needs: what ours does when it is asked for, and why.

Who serves by default is not written here: it follows from the rules of a package. Read from SGLang 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sglang_platform.core.host import PoolAsked

__all__ = ["NONE", "ROWS", "Row"]

NONE: Final = ""
"""The part of features that need none of ours."""

EIGHT_BIT: Final = "float8_e5m2"
"""Which both vendors store; in its place stands any 8-bit float."""


@dataclass(frozen=True)
class Row:
    """One feature and one part.

    feature: as an operator looks for it. covers: the suite's records of it (`host/features`), by name.
    part: of `core.portable.parts.PARTS`, or NONE. asked: what our part does where the operator asks for it.
    pool: the kind of KV pool, and what the host asks for when it builds one; for `part` "kv_pool" only.
    """

    feature: str
    part: str
    asked: str
    why: str
    covers: tuple[str, ...] = ()
    pool: tuple[str, PoolAsked] | None = None


def _rows() -> Iterable[Row]:
    yield Row(
        "requests: sampling, log probabilities, stop, hidden states, embeddings",
        "attention",
        "serves",
        "prefill and decode of decoder and encoder layers; the sampler is SGLang's",
        (
            "hostile_requests",
            "hostile_requests_to_an_engine",
            "sampling_filters",
            "log_probabilities",
            "logit_bias",
            "penalties",
            "stop_tokens",
            "several_answers",
            "hidden_states",
            "embeddings",
            "reward_model",
            "mixture_of_experts",
            "latent_attention",
            "long_context",
            "router_before_two_engines",
        ),
    )
    yield Row(
        "structured output",
        NONE,
        "",
        "a grammar's mask is put on logits by SGLang's own kernels: neither package brings one",
        (
            "tool_calls_xgrammar",
            *(
                f"{grammar}_{backend}"
                for grammar in ("json_schema", "regex", "ebnf")
                for backend in ("xgrammar", "llguidance", "outlines")
                if (grammar, backend) != ("ebnf", "outlines")
            ),
        ),
    )
    yield Row(
        "LoRA",
        "graph_runner",
        "serves the batches that SGLang's LoRA backend prepares for graphs",
        "SGLang's runner prepares the adapters of a batch before each replay",
        ("lora_two_adapters", "lora_graphs"),
    )
    speculative = (
        "ngram_drafts",
        "ngram_drafts_sampled",
        "standalone_chain",
        "standalone_tree",
        "standalone_wrong_drafts",
        "eagle_chain",
        "eagle_tree",
        "ngram_drafts_delta",
        "ngram_drafts_mamba",
    )
    yield Row(
        "speculative decoding",
        "attention",
        "serves, told as decode and extend steps",
        "SGLang chooses backends of drafts by name, and prepares their graphs in its own",
        speculative,
    )
    yield Row(
        "speculative decoding",
        "graph_runner",
        "target model only",
        "SGLang has a runner for each phase: draft, draft extend, verification",
        speculative,
    )
    yield Row(
        "speculative decoding: the draft model's pool",
        "kv_pool",
        "refused by name",
        "a draft has few layers, and the hierarchical cache of an NVFP4 target takes SGLang's own class",
        speculative,
        ("mha", PoolAsked(EIGHT_BIT, "a draft model")),
    )
    yield Row(
        "8-bit KV cache (MHA, GQA)",
        "kv_pool",
        "serves",
        "one launch divides by the scales, casts with saturation and stores; SGLang takes three, with scales five",
        ("fp8_cache",),
        ("mha", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "8-bit KV cache (MLA)",
        "kv_pool",
        "serves",
        "one launch casts and stores where SGLang takes three, and moves all layers where SGLang takes two each",
        ("fp8_cache",),
        ("mla", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "KV cache of the model's type",
        "kv_pool",
        "serves",
        "SGLang stores and moves in one launch too, and its checks of exact types find their own class",
        (),
        ("mha", PoolAsked("bfloat16")),
    )
    yield Row(
        "4-bit and block-scaled KV cache (fp4, mxfp8)",
        "kv_pool",
        "our class hands their stores on to SGLang's code",
        "SGLang has classes and methods of its own for them",
        (),
        ("mha", PoolAsked("float4_e2m1fn_x2")),
    )
    yield Row(
        "hierarchical cache",
        "kv_pool",
        "serves",
        "buffers and their description are SGLang's in our class too: only stores and moves are ours",
        (
            "hierarchical_cache",
            "hierarchical_cache_write_back",
            "hierarchical_cache_latent",
            "hierarchical_cache_files",
        ),
        ("mha", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "prefill and decode apart",
        "kv_pool",
        "serves",
        "the addresses that are registered for transfer are those of SGLang's buffers",
        ("prefill_and_decode_apart", "prefill_and_decode_apart_latent"),
        ("mha", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "memory saver",
        "kv_pool",
        "serves",
        "SGLang allocates the buffers, inside the region that it gives back",
        ("memory_saver",),
        ("mha", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "pages kept whole across layers (unified memory)",
        "kv_pool",
        "refused by name",
        "the layout is a class of SGLang's, which a platform's class would replace in silence",
        (),
        ("mha", PoolAsked(EIGHT_BIT, "another layout")),
    )
    yield Row(
        "KV cache shared out among ranks (--enable-kv-cache-sharding)",
        "kv_pool",
        "refused by name",
        "SGLang asserts that the class is its own",
        (),
        ("mha", PoolAsked(EIGHT_BIT, "sharding")),
    )
    yield Row(
        "torch.compile of the model",
        "kv_pool",
        "refused by name",
        "it traces the model through SGLang's own stores",
        (),
        ("mha", PoolAsked(EIGHT_BIT, "torch.compile")),
    )
    hybrids = ("gated_delta_hybrid", "mamba2_hybrid")
    yield Row(
        "Mamba and gated-delta hybrids",
        "kv_pool",
        "refused by name",
        "fused sparse attention and external cache linkers compare the exact class",
        hybrids,
        ("mha", PoolAsked(EIGHT_BIT, "a hybrid model")),
    )
    yield Row(
        "Mamba and gated-delta hybrids",
        "attention",
        "serves the layers of full attention",
        "SGLang wraps its backends for these models, and knows which by name",
        hybrids,
    )
    yield Row(
        "sliding windows with a pool of their own",
        "attention",
        "refused by name",
        "the request table names slots of the full pool only; --disable-hybrid-swa-memory is served",
    )
    yield Row(
        "sliding windows with a pool of their own",
        "kv_pool",
        "serves",
        "both pools store by our kernel; SGLang hands over the slots of each",
        (),
        ("mha", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "sliding windows with a pool of their own",
        "allocator",
        "serves",
        "SGLang's allocator of two pools is built from two of ours",
    )
    yield Row(
        "sparse attention (DSA)",
        "kv_pool",
        "serves, with SGLang's own cache of the indexer's keys",
        "the layout of rows and keys belongs to the kernels that SGLang has chosen",
        (),
        ("dsa", PoolAsked(EIGHT_BIT)),
    )
    yield Row(
        "sparse attention (DSA)",
        "attention",
        "refused by name",
        "SGLang's indexer asks the backend for metadata of SGLang's own (get_indexer_metadata)",
    )
    yield Row(
        "cross attention, attention in chunks (Llama 4), temperature by length (Grok)",
        "attention",
        "refused by name",
        "no kernel of ours computes them: is_cross_attention, use_irope, xai_temperature_len, logit_capping_method",
    )
    yield Row(
        "Llama 4, Gemma 4, Exaone 4",
        "attention",
        "refused by SGLang, which names the backends that it accepts",
        "SGLang settles the backend by model, and asserts its name",
    )
    yield Row(
        "merging attention of parts of a prompt (return_lse)",
        "attention",
        "refused by name",
        "our kernels give the output without the sums of the softmax",
    )
    yield Row(
        "KV cache by heads (SGLANG_USE_HND_KVCACHE), AITER's five dimensions",
        "attention",
        "refused by name",
        "our kernels read rows of a slot",
    )
    yield Row(
        "vision language models",
        "attention",
        "serves the language model",
        "the attention of images is a layer of SGLang's own (--mm-attention-backend)",
        ("vision_language_model",),
    )
    yield Row(
        "quantised checkpoints",
        NONE,
        "",
        "matrix products and the quantisation of their inputs are SGLang's",
        (
            "checkpoint_fp8",
            "checkpoint_fp8_block",
            "checkpoint_awq",
            "checkpoint_gptq",
            "checkpoint_int8",
            "checkpoint_unknown",
        ),
    )
    yield Row(
        "rotary embedding fused with the store of keys",
        "ops",
        "serves rows of a slot; other layouts left to SGLang, call by call",
        "one launch as in SGLang, for any head, saturated in 8 bits; what our kernels do not know runs as without ours",
    )
    yield Row(
        "deterministic inference",
        "attention",
        "refused by SGLang, which names the backends that it accepts",
        "SGLang knows by name the backends whose sums do not depend on the batch",
    )
    yield Row(
        "two-batch overlap",
        "graph_runner",
        "serves without the overlap",
        "SGLang's runner captures both halves of a batch",
    )
    parallel = (
        "two_nodes",
        "tensor_parallel",
        "expert_parallel",
        "data_parallel",
        "data_parallel_attention",
        "data_parallel_attention_latent",
        "data_parallel_attention_graphs",
    )
    yield Row(
        "tensor, expert and data parallelism",
        "communicator",
        "serves through torch.distributed",
        "SGLang has custom all-reduce kernels, and collectives inside graphs",
        parallel,
    )
    yield Row(
        "data-parallel attention",
        "graph_runner",
        "serves on SGLang 0.5.23, without graphs on releases before",
        "SGLang's runner pads all ranks to the size that they agree on",
        ("data_parallel_attention", "data_parallel_attention_latent", "data_parallel_attention_graphs"),
    )
    yield Row(
        "pipeline parallelism",
        "graph_runner",
        "serves",
        "SGLang's runner does as well, and captures what stages hand on",
        ("pipeline_parallel", "pipeline_parallel_eager", "pipeline_and_tensor_parallel"),
    )
    yield Row(
        "paged allocation, prefix cache, retraction",
        "allocator",
        "serves",
        "one launch per step as in SGLang; a free writes what is freed, where SGLang copies the whole free list",
    )
    yield Row(
        "norms, activation, rotary embedding",
        "ops",
        "serves",
        "one launch each, as the libraries do; without them SGLang takes plain torch for some",
    )


ROWS: tuple[Row, ...] = tuple(_rows())
