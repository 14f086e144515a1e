# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer, a transformer of 8 layers; the argument is the strategy: ddp or fsdp."""
import sys

import lightning as L
import torch
from lightning.pytorch.strategies import FSDPStrategy

import parts
from author import Author


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = parts.encoder()

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.network(batch), batch)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class Steps(L.Callback):
    def __init__(self):
        self.author, self.saves = Author(), False

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if self.saves:
            self.author.tell("saved")
        self.saves = False
        self.author.step()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        trainer.should_stop |= self.author.is_over()

    def on_save_checkpoint(self, trainer, module, checkpoint):
        if trainer.is_global_zero:
            self.author.tell("save")
            self.saves = True


if __name__ == "__main__":
    strategy = "ddp" if sys.argv[1] == "ddp" else FSDPStrategy(
        auto_wrap_policy={torch.nn.TransformerEncoderLayer})
    loader = torch.utils.data.DataLoader(parts.Noise(65536), batch_size=32, shuffle=True)
    L.Trainer(strategy=strategy, callbacks=[Steps()]).fit(Model(), loader)
