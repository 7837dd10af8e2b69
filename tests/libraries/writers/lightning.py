"""A run of PyTorch Lightning: step-2.ckpt and step-4.ckpt, and weights.ckpt without what a resume needs."""

import warnings
from pathlib import Path

import forked
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

warnings.simplefilter("ignore")


class Line(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _number):  # type: ignore[no-untyped-def]
        return self.layer(batch).square().mean()

    def validation_step(self, batch, _number):  # type: ignore[no-untyped-def]
        self.log("val_loss", self.layer(batch).square().mean())

    def configure_optimizers(self):  # type: ignore[no-untyped-def]
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


def main(folder: Path) -> None:
    torch.manual_seed(1)
    data = torch.utils.data.DataLoader(torch.randn(4, 4), batch_size=2)
    keep = ModelCheckpoint(
        dirpath=folder, filename="step-{step}", auto_insert_metric_name=False, monitor="val_loss", save_top_k=-1
    )
    trainer = pl.Trainer(
        max_steps=4,
        accelerator="cpu",
        callbacks=[keep],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), data, data)
    trainer.save_checkpoint(f"{folder}/weights-step-4.ckpt", weights_only=True)


forked.run(main)
