"""PyTorch's distributed autograd between two processes of this machine: what bench_autograd measures
of ours. Prints one JSON line, {name: microseconds}.

usage: autograd.py [tcp|default], as rpc.py"""

import json
import statistics
import time

import rpc as peers  # first: it says which interface to use
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

HOPS = 10
FACTOR = 1.01
STEPS = {"step_2_workers": 200, f"chain_{HOPS}_hops": 60}


def scale(x):
    return x * FACTOR


def hop(x, hops, on_first):
    y = x * FACTOR
    if hops == 1:
        return y
    return rpc.rpc_sync("w1" if on_first else "w0", hop, args=(y, hops - 1, not on_first))


def step(forward, leaf):
    """Microseconds in all, of forward, of backward, of reading the gradients."""
    start = time.perf_counter()
    with dist_autograd.context() as context:
        loss = forward(leaf).sum()
        after_forward = time.perf_counter()
        dist_autograd.backward(context, [loss])
        after_backward = time.perf_counter()
        gradients = dist_autograd.get_gradients(context)
        end = time.perf_counter()
    assert leaf in gradients
    stamps = (end - start, after_forward - start, after_backward - after_forward, end - after_backward)
    return [1e6 * seconds for seconds in stamps]


def measure():
    forwards = {
        "step_2_workers": lambda x: rpc.rpc_sync("w1", scale, args=(x,)),
        f"chain_{HOPS}_hops": lambda x: rpc.rpc_sync("w1", hop, args=(x, HOPS, False)),
    }
    values = {}
    for name, forward in forwards.items():
        leaf = torch.rand(3, 3, requires_grad=True)
        for _ in range(20):
            step(forward, leaf)
        columns = zip(*(step(forward, leaf) for _ in range(STEPS[name])))
        medians = [statistics.median(column) for column in columns]
        for part, value in zip(("", "_forward", "_backward", "_get_gradients"), medians):
            values[name + part] = value
    return values


if __name__ == "__main__":
    print(json.dumps(peers.run_pair(measure)))
