# SPDX-License-Identifier: Apache-2.0
"""Policy gradients of a small GPT-2: rollouts of uneven lengths, rewards told over gloo, then three passes of DDP.
The author's step is a rollout with its passes."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2Config, GPT2LMHeadModel

import parts
from author import Author

PASSES, PROMPT, NEW_LEAST, NEW_MOST = 3, 16, 12, 24
device = parts.begin()
talk = dist.new_group(backend="gloo")
policy = GPT2LMHeadModel(GPT2Config(vocab_size=2048, n_positions=128, n_embd=384, n_layer=4, n_head=6,
                                    bos_token_id=0, eos_token_id=None)).to(device)
learner = DistributedDataParallel(policy, device_ids=[device.index])
optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-5)
for _ in Author().steps():
    new = int(torch.randint(NEW_LEAST, NEW_MOST + 1, ()))
    policy.eval()
    with torch.no_grad():
        words = policy.generate(torch.randint(1, 2048, (32, PROMPT), device=device), do_sample=True,
                                min_new_tokens=new, max_new_tokens=new, pad_token_id=0)
    policy.train()
    reward = (words[:, PROMPT:] % 7 == 0).float().mean(-1)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, reward.mean().item(), group=talk)
    gain = reward - sum(everyones) / len(everyones)
    for _ in range(PASSES):
        scores = learner(input_ids=words).logits[:, PROMPT - 1:-1].log_softmax(-1)
        chosen = scores.gather(-1, words[:, PROMPT:, None])[..., 0].mean(-1)
        (-(gain * chosen).mean()).backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
