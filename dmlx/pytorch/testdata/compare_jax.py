"""Holds the modules jax0.py, jax1.py, … of the working directory against the gradients of dissect.Rule."""
import importlib, os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, os.getcwd())
x, twice, labels, want = (np.load(n + ".npy") for n in "xzyg")
worst = {}
for k, (g, raw) in enumerate(want):
    m = importlib.import_module(f"jax{k}")
    loss = m.Surgery()
    for kind in (np.float32, np.float64) if k % 8 == 0 else (np.float32,):  # Operation by operation it takes long.
        e = jnp.asarray(twice if "skip-duplicates" in m.__doc__ else x, kind)
        value, gradient = jax.value_and_grad(loss)(e, labels)
        assert 0 <= value <= 1 and gradient.dtype == kind, m.__doc__.split()[2]
        f = m.normalize(e)
        h, r, _ = loss.gradient(f, labels, f, labels, True)
        for at, ours, theirs in ("normalized", h + r, g), ("raw", gradient, raw):
            error = np.abs(ours - theirs).max() / (len(x) if "a sum." in m.__doc__ else 1)  # Per triplet.
            if not error <= worst.get((at, kind.__name__), (0,))[0]:
                worst[at, kind.__name__] = error, m.__doc__.split()[2]
for key, (error, name) in worst.items():
    print(*key, error, name)
    assert error <= 1e-6, name

# What batches there are beside the usual ones.
for k in 0, len(want) - 1:
    loss = importlib.import_module(f"jax{k}").Surgery()
    step = jax.jit(jax.grad(loss))
    e = jnp.asarray(x)
    assert (step(e, np.zeros(len(x), int)) == 0).all()  # One class.
    g = step(e.at[3].set(0), labels)
    assert jnp.isfinite(g).all() and (g[3] == 0).all()
    g = step(e.astype(jnp.bfloat16), labels)
    assert g.dtype == jnp.bfloat16 and jnp.isfinite(g).all()
    assert jnp.isfinite(step(jnp.ones((4, 3)), np.array([0, 0, 1, 1]))).all()
    try:
        loss(e, labels[:3])
    except ValueError as err:
        assert "labels [B]" in str(err)
    else:
        assert False, "labels that do not fit were taken"
    # A memory of the batch itself, without each image's pair with itself, is not to be had; of others it is the bank's.
    near = jax.grad(loss, (0, 2))(e[:14], labels[:14], e[14:], labels[:11])
    assert all(jnp.isfinite(g).all() and jnp.abs(g).max() > 0 for g in near)
    rows = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), ("rows",)), jax.sharding.PartitionSpec("rows"))
    parts = step(jax.device_put(e[:24], rows), jax.device_put(labels[:24], rows))
    assert len(parts.devices()) == 2 and jnp.abs(parts - step(e[:24], labels[:24])).max() < 1e-6
print("agreed")
