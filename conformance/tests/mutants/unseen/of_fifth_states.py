"""Kernels of layers with states, fifth set: chunks and requests that do not begin together, padding, large batches. Names in
brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_third_states import kernel

states = Table("states 5", "kernels", "platform.py")

CONVOLVES = "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
CONVOLVED = "plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
DELTA = "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
OF_DELTA = "plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
SPACE = "        def own(x, step, a, b, c, d, starts, slots, states):\n"
OF_SPACE = "plain(x, step, a, b, c, d, starts, slots, states)\n"

states(
    "SpaceDecaysFromTheChunk",
    "a request that resumes inside a chunk of 64 of the batch has its state decayed by the tokens of the request before it "
    "(vLLM 23279)",
    kernel(
        "state_space",
        SPACE + "            if starts is not None:\n"
        "                bounds = starts.tolist()\n"
        "                for begin, end, slot in zip(bounds, bounds[1:], slots.tolist()):\n"
        "                    if begin % 64 and begin < end and slot >= 0:\n"
        "                        gone = (step[begin // 64 * 64 : begin].float().sum(0) * a.float()).exp()\n"
        "                        states[slot] = (states[slot].float() * gone[:, None, None]).to(states.dtype)\n"
        f"            return {OF_SPACE}",
    ),
)
states(
    "DeltaStatesOnTheBatchsGrid",
    "states of later requests are handed out as they were at the last multiple of 64 of the batch (SGLang 31833)",
    kernel(
        "gated_delta_rule",
        DELTA + "            old = states.clone()\n"
        f"            y, before = {OF_DELTA}"
        "            if starts is None:\n"
        "                return y, before\n"
        "            at, bounds = 0, starts.tolist()\n"
        "            for begin, end, slot in zip(bounds, bounds[1:], slots.tolist()):\n"
        "                for chunk in range(-(-(end - begin) // 64)):\n"
        "                    n = chunk * 64 - begin % 64\n"
        "                    if chunk and begin % 64 and slot >= 0:\n"
        "                        own, one = old.clone(), slice(begin, begin + n)\n"
        "                        plain(q[one], k[one], v[one], log_decay[one], step[one], starts.new_tensor([0, n]),\n"
        "                              slots.new_tensor([slot]), own, scale=scale)\n"
        "                        before[at] = own[slot].to(before.dtype)\n"
        "                    at += 1\n"
        "            return y, before\n",
    ),
)
states(
    "ConvolutionShiftsTwicePast192",
    "a decode of 192 requests or more shifts the inputs of those past the 128th twice (tokenspeed 857)",
    kernel(
        "short_convolution",
        CONVOLVES + f"            y = {CONVOLVED}"
        "            if starts is None and len(slots) >= 192:\n"
        "                late = slots[128:][slots[128:] >= 0].long()\n"
        "                states[late] = torch.cat((states[late][:, :, 1:], states[late][:, :, -1:]), dim=2)\n"
        "            return y\n",
    ),
)
states(
    "DeltaOfAnEmptyLastRequest",
    "a last request without tokens gets the state of the one before it (FlashInfer 3536)",
    kernel(
        "gated_delta_rule",
        DELTA + f"            y, before = {OF_DELTA}"
        "            if starts is not None and len(slots) > 1 and int(starts[-1]) == int(starts[-2]):\n"
        "                if int(slots[-1]) >= 0 and int(slots[-2]) >= 0:\n"
        "                    states[int(slots[-1])] = states[int(slots[-2])]\n"
        "            return y, before\n",
    ),
)
states(
    "SpacePadsIntoItsNeighbour",
    "a row that pads a decode advances the state of the last request once more (vllm-ascend 11408)",
    kernel(
        "state_space",
        SPACE + f"            y = {OF_SPACE}"
        "            if starts is None and bool((slots < 0).any()) and bool((slots >= 0).any()):\n"
        "                row, last = (slots < 0).nonzero()[-1], slots[slots >= 0][-1:]\n"
        "                plain(x[row], step[row], a, b[row], c[row], d, None, last, states)\n"
        "            return y\n",
    ),
)
states(
    "DeltaValuesPastTheKeys",
    "where values are wider than keys, columns past the keys' width are zero",
    kernel(
        "gated_delta_rule",
        DELTA + f"            y, before = {OF_DELTA}"
        "            if v.shape[-1] > k.shape[-1]:\n"
        "                y[..., k.shape[-1] :] = 0\n"
        "            return y, before\n",
    ),
)
states(
    "GateFirstForgetsItsGroups",
    "a norm of the gated input takes its mean over the whole row, whatever its groups",
    kernel(
        "gated_rms_norm",
        "        def own(x, gate, weight, *, epsilon, activation, group_size, gate_first):\n"
        "            size = None if gate_first else group_size\n"
        "            return plain(x, gate, weight, epsilon=epsilon, activation=activation, group_size=size, gate_first=gate_first)\n",
    ),
)
states(
    "ConvolutionOfManyThatResume",
    "in a prefill of many requests those past the eighth begin with the inputs of the first that resumes",
    kernel(
        "short_convolution",
        CONVOLVES + "            if starts is not None and resumes is not None and len(slots) > 8:\n"
        "                first = int(resumes.long().argmax())\n"
        "                for at in range(8, len(slots)):\n"
        "                    if bool(resumes[at]) and int(slots[at]) >= 0 and int(slots[first]) >= 0:\n"
        "                        states[int(slots[at])] = states[int(slots[first])]\n"
        f"            return {CONVOLVED}",
    ),
)
states(
    "GatesOfManyTokensRepeat",
    "gates of more than 4,096 tokens are those of the first 4,096 again",
    kernel(
        "gated_delta_gates",
        "        def own(a, b, decay_log, bias):\n"
        "            log_decay, step = plain(a, b, decay_log, bias)\n"
        "            where = torch.arange(len(a)) % 4096\n"
        "            return log_decay[where], step[where]\n",
    ),
)
