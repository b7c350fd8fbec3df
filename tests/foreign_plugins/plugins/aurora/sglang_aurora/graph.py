"""Aurora's command graphs, through SGLang's runner."""

from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner


class AuroraGraphRunner(DecodeCudaGraphRunner):
    def __init__(self, model_runner, **options):
        super().__init__(model_runner, **options)
        self.recorded = {}

    def can_run_graph(self, forward_batch):
        return forward_batch.batch_size in self.recorded and super().can_run_graph(forward_batch)
