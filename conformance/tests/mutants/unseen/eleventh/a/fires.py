"""Do the missed defects fire? Each against the healthy example, without the suite, as SGLang would call it."""
import os; os.environ["SGLANG_EXAMPLE_OOT_DEVICE"]="cpu"
import torch; torch.set_num_threads(1)
from types import SimpleNamespace as NS
from sglang_platform.core import ReqToTokenPool
from sglang_platform.core.attention.batch import *
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
import g01_padding_on_new_bucket as g1, g02_mrope_not_loaded as g2, m02_first_view_kept as m2
from sglang_platform.core.memory.memory_saver import MemorySaver

def world(runner):
    torch.manual_seed(0)
    pool=ExampleOOTMHAPool(size=64,page_size=1,dtype=torch.float32,head_num=1,head_dim=8,layer_num=1,device="cpu",enable_memory_saver=False)
    reqs=ReqToTokenPool(8,32,"cpu",False)
    reqs.req_to_token[1:5,:8]=torch.arange(1,33).view(4,8).int()
    table=torch.randn(64,8)
    class Model:
        def forward(self,ids,positions,fb,**more):
            x=table[ids]+positions[:,None].float()*.1+fb.mrope_positions.sum(0)[:,None].float()*.01
            layer=AttentionLayer(0,1,1,1,8,8,.35)
            return fb_backend.forward(x,x,x*2,layer,fb)
    mr=NS(token_to_kv_pool=pool,req_to_token_pool=reqs,device="cpu",graph_batch_sizes=[4],model_config=NS(vocab_size=64))
    fb_backend=ExampleOOTAttentionBackend(mr); mr.attn_backend=fb_backend; mr.model=Model()
    return pool,runner(mr)
def batch(rows,lens,slots,ids,mrope):
    n=len(rows); t=torch.tensor
    return ForwardBatch(ForwardMode.DECODE,n,t(rows),t(lens),t(slots),seq_lens_cpu=t(lens),seq_lens_sum=sum(lens),positions=t(lens)-1,input_ids=t(ids),mrope_positions=t([mrope]*3))
for name,r in (("healthy",ExampleOOTGraphRunner),("g01",g1.Runner),("g02",g2.Runner)):
    pool,run=world(r)
    run.execute(batch([1,2,3,4],[4,4,4,4],[4,12,20,28],[1,2,3,4],[3]*4)).clone()
    pool.k_buffer[0][28]=7.0   # slot 28 is lent to somebody else after request 4 has left
    out=run.execute(batch([1,2,3],[5,5,5],[5,13,21],[5,6,7],[40]*3)).clone()
    print(name,"slot 28:",pool.k_buffer[0][28,0,:3].tolist(),"out:",[round(x,4) for x in out[0,:3].tolist()])
for name,S in (("healthy",MemorySaver),("m02",m2.Saver)):
    w=torch.arange(6.); a,b=w[:3],w[3:]; s=S(); s.release("weights",[a,b],keep_content=True); s.resume("weights"); print(name,a.tolist(),b.tolist())
