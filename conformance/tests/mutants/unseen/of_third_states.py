"""Kernels of layers with states, third set: each is core's, called in a way that a device's own might compute."""

from __future__ import annotations

from broken import Edit, Table, at

states = Table("states 3", "kernels", "platform.py")


def kernel(name: str, body: str) -> Edit:
    """The platform answers one state kernel of its own, made of core's: `body` are the lines of its function."""
    return at(
        "platform.py",
        "    def init_backend(self) -> None:\n",
        "    def get_state_kernels(self) -> dict[str, Callable[..., Any]]:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS\n\n"
        f'        plain = PORTABLE_STATE_KERNELS["{name}"]\n\n'
        f"{body}\n"
        f'        return {{"{name}": own}}\n\n'
        "    def init_backend(self) -> None:\n",
    )


states(
    "ConvolutionResumesAll",
    "a request that does not resume begins with what its slot held, if it has fewer tokens than the kernel is wide",
    kernel(
        "short_convolution",
        "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
        "            if starts is not None and resumes is not None:\n"
        "                resumes = resumes | (starts.diff() < weight.shape[1])\n"
        "            return plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n",
    ),
)
states(
    "ConvolutionPadsIntoTheLast",
    "a negative slot is the last of the pool",
    kernel(
        "short_convolution",
        "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
        "            slots = torch.where(slots < 0, slots + len(states), slots) if starts is None else slots\n"
        "            return plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n",
    ),
)
states(
    "DeltaRuleNormsInTheType",
    "q and k are brought to length one in their own type",
    kernel(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            q = (q / q.norm(dim=-1, keepdim=True)).to(q.dtype)\n"
        "            return plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n",
    ),
)
states(
    "DeltaRuleHeadsInTurn",
    "value heads take the key heads in turn, not in runs",
    kernel(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            times = v.shape[1] // q.shape[1]\n"
        "            if times > 2:\n"
        "                q, k = q.repeat(1, times, 1), k.repeat(1, times, 1)\n"
        "            return plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n",
    ),
)
states(
    "DeltaRuleStatesOfOneChunk",
    "of the states before each chunk, those of a request past its eighth are the eighth's",
    kernel(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            y, before = plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
        "            if before is not None and len(starts) == 2 and len(before) > 8:\n"
        "                before = before.clone()\n"
        "                before[8:] = before[7]\n"
        "            return y, before\n",
    ),
)
states(
    "StateSpaceInTwoHalves",
    "a request of more than 256 tokens is computed in two calls, and the state goes through the pool's type between",
    kernel(
        "state_space",
        "        def own(x, step, a, b, c, d, starts, slots, states):\n"
        "            if starts is None or len(starts) != 2 or len(x) <= 256 or int(starts[0]) or int(starts[1]) < len(x):\n"
        "                return plain(x, step, a, b, c, d, starts, slots, states)\n"
        "            parts = []\n"
        "            for at in (slice(0, 256), slice(256, len(x))):\n"
        "                n = starts.new_tensor([0, len(x[at])])\n"
        "                parts.append(plain(x[at], step[at], a, b[at], c[at], d, n, slots, states))\n"
        "            return torch.cat(parts)\n",
    ),
)
states(
    "StateSpaceSkipsAnEmptyRequest",
    "a request without tokens shifts the slots of those behind it",
    kernel(
        "state_space",
        "        def own(x, step, a, b, c, d, starts, slots, states):\n"
        "            if starts is not None and bool((starts.diff() == 0).any()):\n"
        "                kept = starts.diff() > 0\n"
        "                starts = torch.cat((starts[:1], starts[1:][kept]))\n"
        "                slots = slots[: len(starts) - 1]\n"
        "            return plain(x, step, a, b, c, d, starts, slots, states)\n",
    ),
)
states(
    "GatedNormGatesAfter",
    "with gate_first and groups the gate is applied after the norm",
    kernel(
        "gated_rms_norm",
        "        def own(x, gate, weight, *, epsilon, activation, group_size, gate_first):\n"
        "            first = gate_first and not (group_size and group_size < x.shape[-1])\n"
        "            return plain(\n"
        "                x, gate, weight, epsilon=epsilon, activation=activation, group_size=group_size, gate_first=first\n"
        "            )\n",
    ),
)
states(
    "GatesOfLargeInputs",
    "softplus is log(1 + exp(x)): beyond 88 the decay is minus infinity, in half precision beyond 11",
    kernel(
        "gated_delta_gates",
        "        def own(a, b, decay_log, bias):\n"
        "            x = (a + bias).float()\n"
        "            raised = torch.exp(x).to(torch.float16).float()\n"
        "            return -torch.exp(decay_log.float()) * torch.log1p(raised), torch.sigmoid(b.float())\n",
    ),
)
