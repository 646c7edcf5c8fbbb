"""Attention on one GPU, forward and with backward, compared with PyTorch's scaled_dot_product_attention if it is installed.

    python bench/gpu/attention.py [--rows gpt2,bert,long,float32,wide] [--peers]

Times of kernels: calls are queued together and divided by their number.  TFLOP/s count the products that are needed (two
forward, five backward; half of them if causal), not those that an implementation makes again.
"""
import argparse
import time

# batch, heads, length, size of a head, causal, type
ROWS = {"gpt2": (16, 12, 1024, 64, True, "bfloat16"), "bert": (32, 12, 128, 64, False, "bfloat16"),
        "long": (1, 16, 16384, 128, True, "bfloat16"), "float32": (16, 12, 1024, 64, True, "float32"),
        "wide": (8, 8, 2048, 256, False, "bfloat16")}


def seconds(call, wait, count=20):
    for _ in range(3):
        call()
    wait()
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return (time.perf_counter() - start) / count


def ours(batch, heads, length, size, causal, dtype):
    import mxnet as mx
    from mxnet import autograd, nd
    x = nd.random.normal(shape=(batch, length, 3 * heads * size), ctx=mx.gpu(0)).astype(dtype)
    g = nd.random.normal(shape=(batch, length, heads * size), ctx=mx.gpu(0)).astype(dtype)
    x.attach_grad()

    def forward():
        return nd.contrib.attention(x, heads=heads, roles="packed", causal=causal)

    def both():
        with autograd.record():
            y = forward()
        y.backward(g)
    return forward, both, nd.waitall


def peer(batch, heads, length, size, causal, dtype):
    import torch
    from torch.nn import functional as F
    torch.backends.cuda.matmul.allow_tf32 = True
    q, k, v = (torch.randn(batch, heads, length, size, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
               for _ in range(3))
    g = torch.randn_like(q)

    def forward():
        with torch.no_grad():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def both():
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(g)
    return forward, both, torch.cuda.synchronize


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--peers", action="store_true", help="run PyTorch as well")
    options = parser.parse_args()
    for row in options.rows.split(","):
        batch, heads, length, size, causal, _ = ROWS[row]
        product = 2e-12 * batch * heads * length * length * size / (2 if causal else 1)
        for who, make in [("gluon", ours)] + [("pytorch", peer)] * options.peers:
            forward, both, wait = make(*ROWS[row])
            first, all_ = seconds(forward, wait), seconds(both, wait)
            print(f"{row:8} {who:8} forward {first * 1e3:8.3f} ms {2 * product / first:6.0f} TFLOP/s"
                  f"   backward {(all_ - first) * 1e3:8.3f} ms {5 * product / (all_ - first):6.0f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
