"""Holds the modules torch0.py, torch1.py, … of the working directory against the gradients of dissect.Rule."""
import importlib, os, sys
import numpy as np, torch

torch.set_num_threads(1)
sys.path.insert(0, os.getcwd())
x, twice, y, want = (np.load(n + ".npy") for n in "xzyg")
labels = torch.from_numpy(y)


def worker(rank, size, port, name):
    """One of several processes, with its part of the batch: by hand, then in the wrapper of pytorch-metric-learning."""
    import torch.distributed as dist
    torch.set_num_threads(1)
    module = importlib.import_module(name)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    part = slice(rank * 12, (rank + 1) * 12)

    def differs(step):
        linear = torch.nn.parallel.DistributedDataParallel(start())
        step(linear(torch.from_numpy(x)[part]), labels[part].contiguous()).backward()
        return (linear.module.weight.grad - alone(module)).abs().max().item()

    def by_hand(rows, mine):
        parts, copies = [torch.empty_like(mine) for _ in range(size)], [torch.empty_like(rows) for _ in range(size)]
        dist.all_gather(parts, mine)
        dist.all_gather(copies, rows.detach())
        copies[rank] = rows
        return size * module.Surgery()(torch.cat(copies), torch.cat(parts))

    error = differs(by_hand)
    assert error < 1e-6, f"over {size} processes the gradient differs by {error}"
    try:
        from pytorch_metric_learning.utils.distributed import DistributedLossWrapper
    except ImportError:
        pass
    else:
        error = differs(DistributedLossWrapper(module.Surgery()))
        assert error < 1e-6, f"in DistributedLossWrapper the gradient differs by {error}"
        error = differs(DistributedLossWrapper(module.Surgery(), efficient=True))
        assert error > 1e-2, f"with efficient=True the gradient differs by {error} only: the advice is out of date"
    dist.destroy_process_group()


def start():
    torch.manual_seed(1)
    return torch.nn.Linear(x.shape[1], 6, bias=False)


def alone(module):
    linear = start()
    module.Surgery()(linear(torch.from_numpy(x)[:24]), labels[:24]).backward()
    return linear.weight.grad


def compare():
    worst = {}
    for k, (g, raw) in enumerate(want):
        m = importlib.import_module(f"torch{k}")
        for kind in torch.float32, torch.float64:
            e = torch.from_numpy(twice if "skip-duplicates" in m.__doc__ else x).to(kind).requires_grad_()
            loss = m.Surgery()(e, labels)
            loss.backward()
            assert 0 <= loss.item() <= 1 and torch.isfinite(e.grad).all(), m.__doc__.split()[2]
            f = m.normalize(e.detach())
            h, r, _ = m.Surgery().gradient(f, labels, f, labels, None)
            for at, ours, theirs in ("normalized", h + r, g), ("raw", e.grad, raw):
                error = np.abs(ours.numpy() - theirs).max() / (len(x) if "a sum." in m.__doc__ else 1)  # Per triplet.
                if error > worst.get((at, kind), (0,))[0]:
                    worst[at, kind] = error, m.__doc__.split()[2]
    for (at, kind), (error, name) in worst.items():
        print(at, kind, error, name)
        assert error <= 1e-6, name


def odd(m):
    """What batches there are beside the usual ones."""
    loss = m.Surgery()
    e = torch.from_numpy(x).clone().requires_grad_()
    loss(e, torch.zeros(len(x), dtype=torch.long)).backward()  # One class.
    assert (e.grad == 0).all()
    e = torch.from_numpy(x).clone()
    e[3] = 0
    e.requires_grad_()
    loss(e, labels).backward()
    assert torch.isfinite(e.grad).all() and (e.grad[3] == 0).all()
    e = torch.from_numpy(x).to(torch.bfloat16).requires_grad_()
    loss(e, labels).backward()
    assert e.grad.dtype == torch.bfloat16 and torch.isfinite(e.grad).all()
    one = torch.ones(4, 3, requires_grad=True)
    loss(one, torch.tensor([0, 0, 1, 1])).backward()
    assert torch.isfinite(one.grad).all()
    try:
        loss(e, labels[:3])
    except ValueError as err:
        assert "labels [B]" in str(err)
    else:
        assert False, "labels that do not fit were taken"


def peer(m):
    """In the places of a loss of pytorch-metric-learning."""
    from pytorch_metric_learning import losses, miners
    e = torch.from_numpy(x).requires_grad_()
    m.Surgery()(e, labels).backward()
    plain = e.grad.clone()
    e.grad = None
    pairs = miners.PairMarginMiner(-1, 5)(e, labels)  # All of them.
    assert len(pairs) == 4 and len(pairs[0]) > len(x)
    m.Surgery()(e, labels, pairs).backward()
    assert torch.equal(e.grad, plain), "all pairs give the same"
    known = losses.CrossBatchMemory.supported_losses() + ["Surgery"]
    losses.CrossBatchMemory.supported_losses = lambda: known
    losses.CrossBatchMemory(losses.ContrastiveLoss(), x.shape[1])  # As before.
    memory = losses.CrossBatchMemory(m.Surgery(), x.shape[1], 64)
    for _ in range(3):
        e.grad = None
        memory(e, labels).backward()
        assert torch.isfinite(e.grad).all() and e.grad.abs().max() > 0
    # A memory of one batch holds that itself: the anchors' part of the gradient is the same.
    memory = losses.CrossBatchMemory(m.Surgery(), x.shape[1], len(x))
    e.grad = None
    memory(e, labels).backward()
    f = m.normalize(e.detach())
    g, _, _ = m.Surgery().gradient(f, labels, f, labels, None)
    v = torch.from_numpy(x).requires_grad_()
    (m.normalize(v) * g).sum().backward()
    assert (v.grad - e.grad).abs().max() < 1e-7
    both = losses.MultipleLosses([m.Surgery(), losses.ContrastiveLoss()])
    both(e, labels).backward()


if __name__ == "__main__":
    compare()
    for k in range(len(want)):
        m = importlib.import_module(f"torch{k}")
        odd(m)
        if k % 97 == 0:
            try:
                peer(m)
            except ImportError:
                print("pytorch-metric-learning is not there")
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(worker, (2, port, "torch0"), nprocs=2)
    print("agreed")
