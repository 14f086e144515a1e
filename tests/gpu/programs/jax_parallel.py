# SPDX-License-Identifier: Apache-2.0
"""JAX, one process a GPU, jit over a mesh, optax, loss read every 10 steps; the argument: data (flax) or tensor."""
import os
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from author import Author

WIDTH, LAYERS, ROWS = 1024, 12, 8192
jax.distributed.initialize(f"127.0.0.1:{int(os.environ['MASTER_PORT']) + 1}",
                           int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]),
                           local_device_ids=[int(os.environ["LOCAL_RANK"])])
mesh = Mesh(np.array(jax.devices()), ("all",))


def placed(*axes):
    return NamedSharding(mesh, PartitionSpec(*axes))


class Model(nn.Module):
    @nn.compact
    def __call__(self, values):
        for _ in range(LAYERS):
            hidden = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(values)))
            values = values + nn.Dense(WIDTH)(hidden)
        return values


def blocks(weights, values):
    for up, down in weights:
        values = values + jax.nn.gelu(values @ up) @ down
    return values


def random_weights():
    return [(jax.random.normal(key, (WIDTH, 4 * WIDTH)) / 32, jnp.zeros((4 * WIDTH, WIDTH)))
            for key in jax.random.split(jax.random.key(0), LAYERS)]


if sys.argv[1] == "data":
    apply, rows, everywhere = Model().apply, placed("all"), placed()
    weights = jax.jit(lambda: Model().init(jax.random.key(0), jnp.zeros((8, WIDTH))),
                      out_shardings=everywhere)()
    seed = jax.process_index()
else:
    apply, rows, seed = blocks, placed(), 0
    weights = jax.jit(random_weights,
                      out_shardings=[(placed(None, "all"), placed("all", None))] * LAYERS)()
optimizer = optax.sgd(1e-3)
state, random = optimizer.init(weights), np.random.default_rng(seed)


@jax.jit
def train(weights, state, batch):
    loss, slopes = jax.value_and_grad(lambda w: jnp.mean((apply(w, batch) - batch) ** 2))(weights)
    changes, state = optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, loss


batches = [random.standard_normal((ROWS, WIDTH), dtype=np.float32) for _ in range(8)]
for step in Author().steps():
    batch = jax.make_array_from_process_local_data(rows, batches[step % 8])
    weights, state, loss = train(weights, state, batch)
    if step % 10 == 0:
        print(step, float(loss))
jax.distributed.shutdown()
