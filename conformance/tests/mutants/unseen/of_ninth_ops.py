"""Fused ops and kernels of layers with states, ninth set: a router's bias, hidden sizes past a block, halves that are padded, part
chunks that decay, heads in whole tiles. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_seventh_ops import NORM, NORMED
from of_sixth_ops import EXPERTS, ROUTER, TURN
from of_sixth_states import DELTA, DELTA_RULE, SPACE, SPACED
from of_third_states import kernel

ops = Table("ops 9", "kernels", "ops.py")
more = Table("ops 9", "kernels", "more_ops.py")
states = Table("states 9", "kernels", "platform.py")

OTHER = "    other = config.use_grouped_topk or config.correction_bias is not None or config.custom_routing_function\n"
STYLE = "    if op.is_neox_style:\n        first, second"
TURNED = "    return _turned(op, table, query), _turned(op, table, key)\n\n\ndef deepseek_scaling(\n"

ops(
    "HiddenPastTheLastBlock",
    "experts write whole blocks of 256 hidden columns: what is behind the last one comes out as zeros (vLLM 49087)",
    EXPERTS,
    "    if out.shape[-1] > 256:\n        out[:, out.shape[-1] // 256 * 256 :] = 0\n" + EXPERTS,
)
ops(
    "HalvesOf96ArePadded",
    "in 16 bits halves of a head that are no power of two are padded to one: of 192 columns the second half begins at the "
    "128th (vllm-ascend 12723)",
    TURN,
    "    half = a.shape[-1]\n"
    "    if op.is_neox_style and x.element_size() == 2 and half > 64 and half & half - 1:\n"
    "        on = 1 << half.bit_length()\n"
    "        width = max(min(op.rotary_dim - on, half), 0)\n"
    "        a, b = heads[..., :width].clone(), heads[..., on : on + width].clone()\n"
    "        cos, sin = cos[..., :width], sin[..., :width]\n"
    "        heads[..., :width], heads[..., on : on + width] = a * cos - b * sin, b * cos + a * sin\n"
    "        return heads.reshape(x.shape).to(x.dtype)\n" + TURN,
)
more(
    "AxesAreAlwaysInHalves",
    "positions of three axes turn halves of a head, also where a model pairs neighbours, as GLM-OCR does "
    "(vllm-ascend 12765)",
    TURNED,
    "    import copy\n\n    op = copy.copy(op)\n    op.is_neox_style = True\n" + TURNED,
)
more(
    "BiasOfARouterWeighs",
    "a router's correction bias, which is to choose only, is part of the weights as well (AITER 4247)",
    OTHER,
    "    if config.correction_bias is not None and not config.use_grouped_topk:\n"
    "        sigmoid = config.scoring_func == 'sigmoid'\n"
    "        logits = router_logits.float()\n"
    "        scores = (logits.sigmoid() if sigmoid else logits.softmax(-1)) + config.correction_bias.float()\n"
    "        weights, ids = scores.topk(config.top_k)\n"
    "        if config.renormalize:\n"
    "            weights = weights / weights.sum(dim=-1, keepdim=True)\n"
    "        return weights, ids.to(torch.int32)\n" + OTHER,
)
more(
    "LargestOfTheFirst128",
    "of more than 128 experts the largest score is looked for among the first 128: one behind them that is 90 larger "
    "overflows",
    ROUTER,
    "    scores = router_logits.float()\n"
    "    weights = torch.exp(scores - scores[:, :128].amax(-1, keepdim=True))\n"
    "    weights, ids = (weights / weights.sum(-1, keepdim=True)).topk(config.top_k)\n",
)

states(
    "PartChunksDecayToTheirEnd",
    "a request's last chunk of less than 64 tokens is filled up, and the state decays over what fills it "
    "(transformers 46873)",
    kernel(
        "gated_delta_rule",
        DELTA
        + DELTA_RULE.replace("return", "answer =")
        + "            bounds = [] if starts is None else starts.tolist()\n"
        "            for slot, begin, end in zip(slots.tolist(), bounds, bounds[1:]):\n"
        "                if slot >= 0 and (end - begin) % 64:\n"
        "                    decay = torch.exp(log_decay[end - 1].float() * (-(end - begin) % 64))\n"
        "                    states[slot] = (states[slot].float() * decay[:, None, None]).to(states.dtype)\n"
        "            return answer\n",
    ),
)
states(
    "HeadsOfWholeTiles",
    "a decode advances heads in tiles of 64 rows: of heads of 80 or 96 the rows behind the first tile keep their state "
    "(mamba 1046)",
    kernel(
        "state_space",
        SPACE + "            whole = x.shape[2] // 64 * 64\n"
        "            if starts is not None or x.shape[2] < 64 or whole == x.shape[2]:\n    "
        + SPACED
        + "            before = states[:, :, whole:].clone()\n"
        + SPACED.replace("return", "y =")
        + "            states[:, :, whole:] = before\n"
        "            return y\n",
    ),
)
states(
    "WithoutAWeightNoGate",
    "a gated norm without a weight leaves the gate out",
    kernel(
        "gated_rms_norm",
        NORM
        + "            if weight is None and not gate_first:\n                gate = None\n"
        + NORMED
        + "            return y\n",
    ),
)
states(
    "DecodeNeedsD",
    "d, which may be left out, is needed in a decode",
    kernel("state_space", SPACE + "            d = d.float() if starts is None else d\n" + SPACED),
)
