"""The card's command buffers: a step is recorded once and submitted again."""

from sglang_platform.core import GraphRunner


class CommandBuffer:
    """The commands of one step, and where its results go."""

    def __init__(self, run):
        self.run = run
        self.output = run()

    def replay(self):
        self.output.copy_(self.run())


class MyAcceleratorGraphRunner(GraphRunner):
    def record(self, run):
        buffer = CommandBuffer(run)
        return buffer, buffer.output

    def execute(self, forward_batch, pp_proxy_tensors=None):
        # Only what a step reads on the card is sent to it: the tokens, their places and their lengths.
        inputs, n = self.inputs, forward_batch.batch_size
        received = {} if pp_proxy_tensors is None else pp_proxy_tensors.tensors
        if not self.stage.fits(received):
            return super().execute(forward_batch, pp_proxy_tensors)
        self.bs = next(size for size in self.capture_bs if size >= n)
        captured = self.captured[self.bs]
        inputs.clear()
        inputs.input_ids[:n].copy_(forward_batch.input_ids)
        inputs.req_pool_indices[:n].copy_(forward_batch.req_pool_indices)
        inputs.seq_lens[:n].copy_(forward_batch.seq_lens)
        inputs.out_cache_loc[:n].copy_(forward_batch.out_cache_loc)
        if forward_batch.mrope_positions is not None:
            inputs.mrope_positions[:, :n].copy_(forward_batch.mrope_positions)
        self.stage.load(received, self.bs)
        self._prepare(captured.forward_batch, in_capture=False)
        captured.graph.replay()
        return captured.output[:n]
