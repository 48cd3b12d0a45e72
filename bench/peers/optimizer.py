"""PyTorch's DistributedOptimizer (tcp transport) over four owners on this machine, the trainer one of
them: what bench_optimizer measures of ours. Prints one JSON line, {name: microseconds}."""

import json
import statistics
import time

import rpc as peers  # first: it says which interface to use
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.optim import DistributedOptimizer

OWNERS = 4
BATCH = 16
STEPS = 60
OPTIMIZERS = {"sgd": (torch.optim.SGD, {"lr": 1e-4}), "adam": (torch.optim.Adam, {"lr": 1e-4})}
WIDTHS = (64, 512)


class Held:
    """What this owner has of the model."""

    layer = None


def make_layer(width):
    Held.layer = torch.nn.Linear(width, width)
    return [rpc.RRef(parameter) for parameter in Held.layer.parameters()]


def forward(x):
    return Held.layer(x).relu()


def steps(width, optimizer, times):
    """Microseconds of each step of the optimizer alone."""
    samples = []
    for _ in range(times):
        with dist_autograd.context() as context:
            x = torch.rand(BATCH, width)
            for rank in range(OWNERS):
                x = rpc.rpc_sync(f"w{rank}", forward, args=(x,))
            dist_autograd.backward(context, [x.square().mean()])
            start = time.perf_counter()
            optimizer.step(context)
            samples.append(1e6 * (time.perf_counter() - start))
    return samples


def measure():
    values = {}
    for width in WIDTHS:
        for name, (algorithm, options) in OPTIMIZERS.items():
            parameters = []
            for rank in range(OWNERS):
                parameters += rpc.rpc_sync(f"w{rank}", make_layer, args=(width,))
            optimizer = DistributedOptimizer(algorithm, parameters, **options)
            steps(width, optimizer, 10)
            values[f"step_{name}_{OWNERS}_owners_{width}"] = statistics.median(
                steps(width, optimizer, STEPS)
            )
    return values


if __name__ == "__main__":
    print(json.dumps(peers.run_workers(measure, OWNERS)))
