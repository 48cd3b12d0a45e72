"""PyTorch's RPC (TensorPipe) between two processes of this machine: what bench_rpc measures of ours.

usage: rpc.py [tcp|default]; default is what TensorPipe chooses by itself, shared memory. Prints one
JSON line, {name: value}."""

import collections
import json
import os
import socket
import statistics
import sys
import time

os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as processes

SIZES = {"1KiB": (1 << 10, 500), "64KiB": (64 << 10, 200), "1MiB": (1 << 20, 50), "16MiB": (16 << 20, 8)}
IN_FLIGHT = 64
PIPELINED = {"1KiB": (1 << 10, 2000), "16MiB": (16 << 20, 128)}


def identity(x):
    return x


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def options(port):
    """The uv transport with the basic channel is plain TCP."""
    plain = {"_transports": ["uv"], "_channels": ["basic"]} if sys.argv[1:] != ["default"] else {}
    return rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=60, **plain)


def run_pair(measure):
    return run_workers(measure, 2)


def run_workers(measure, size):
    """Runs `measure` as rank 0 of `size` workers; returns what it returns."""
    context = processes.get_context("fork")
    results, port = context.SimpleQueue(), free_port()
    workers = [context.Process(target=_worker, args=(rank, size, port, measure, results)) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
        if worker.is_alive():
            worker.kill()
    if any(worker.exitcode != 0 for worker in workers):
        raise SystemExit("PyTorch's workers failed")
    return results.get()


def _worker(rank, size, port, measure, results):
    torch.set_num_threads(1)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options(port))
    if rank == 0:
        results.put(measure())
    rpc.shutdown()


def median_us(action, times):
    samples = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples) * 1e6


def in_flight(size_bytes, times):
    x = torch.rand(size_bytes // 4)
    under_way = collections.deque()
    start = time.perf_counter()
    for _ in range(times):
        if len(under_way) == IN_FLIGHT:
            under_way.popleft().wait()
        under_way.append(rpc.rpc_async("w1", identity, args=(x,)))
    for future in under_way:
        future.wait()
    return times / (time.perf_counter() - start)


def measure():
    values = {}
    for name, (size_bytes, times) in SIZES.items():
        x = torch.rand(size_bytes // 4)
        call = lambda: rpc.rpc_sync("w1", identity, args=(x,))
        median_us(call, max(5, times // 5))
        values[f"rpc_{name}"] = median_us(call, times)
    for name, (size_bytes, times) in PIPELINED.items():
        in_flight(size_bytes, times)
        values[f"rpc_{name}_{IN_FLIGHT}_in_flight"] = in_flight(size_bytes, times)
    return values


if __name__ == "__main__":
    print(json.dumps(run_pair(measure)))
