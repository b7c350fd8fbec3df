"""Growth and speed, sixth set: what is kept for each shape, and work that grows with what a step does not need."""

from __future__ import annotations

from broken import Table
from of_third_states import kernel

growth = Table("growth 6", "kernels", "attention.py")
ops = Table("growth 6", "kernels", "ops.py")
states = Table("growth 6", "kernels", "platform.py")

growth(
    "MasksOfEveryShape",
    "the causal mask of each number of new tokens and of keys that was ever computed is kept",
    "    hidden = other > position\n",
    "    hidden = _MASKS.setdefault((m, n), other > position)\n",
    "def _attend(\n",
    "_MASKS: dict[tuple[int, int], torch.Tensor] = {}\n\n\ndef _attend(\n",
)
growth(
    "EachRequestReadsTheBatch",
    "for each request the keys of all requests of the batch are read, and those of the others are left out",
    "            key = _scaled(keys[slots], layer.k_scale)\n",
    "            table = self.req_to_token_pool.req_to_token\n"
    "            rows = batch.req_pool_indices.tolist()\n"
    "            every = torch.cat([table[one, :many] for one, many in zip(rows, lengths, strict=True)]).long()\n"
    "            begin = sum(lengths[:at])\n"
    "            key = _scaled(keys[every], layer.k_scale)[begin : begin + length]\n",
    "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n",
    "        requests = zip(batch.req_pool_indices.tolist(), lengths, news, strict=True)\n"
    "        for at, (row, length, new) in enumerate(requests):\n",
)
ops(
    "EveryExpertForEveryToken",
    "all experts are computed for every token, and those it has not chosen weigh nothing",
    "        for weight, expert in zip(weights, experts, strict=True):\n",
    "        for every, w13 in enumerate(layer.w13_weight):\n"
    "            gate, up = (w13.float() @ hidden_states[token].float()).chunk(2)\n"
    "            layer.w2_weight[every].float() @ (gate * torch.sigmoid(gate) * up)\n"
    "        for weight, expert in zip(weights, experts, strict=True):\n",
)
states(
    "DecodeCopiesThePool",
    "a decode of the delta rule copies the states of all slots there and back",
    kernel(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            if starts is not None:\n"
        "                return plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
        "            pool = states.clone()\n"
        "            answer = plain(q, k, v, log_decay, step, starts, slots, pool, scale=scale)\n"
        "            states.copy_(pool)\n"
        "            return answer\n",
    ),
)
