"""A run of transformers' Trainer under DDP, each rank in the folder of its host; options may follow.

`sharded` cuts the weights into files of 20 kB behind an index; `only_model` leaves out what a resume needs.
"""

import os
import sys
from pathlib import Path

import forked
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(number, number + 8) % 50
        return {"input_ids": ids, "labels": ids}


class Small(Trainer):
    """Saves as the Trainer does, but with weights in several files where asked: it does that from 50 GB on."""

    def _save(self, output_dir=None, state_dict=None):  # type: ignore[no-untyped-def]
        super()._save(output_dir, state_dict)
        if "sharded" in sys.argv and self.args.should_save:
            os.remove(os.path.join(output_dir, "model.safetensors"))
            self.model.save_pretrained(output_dir, max_shard_size="20KB")


def main(folder: Path) -> None:
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=4,
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        per_device_train_batch_size=2,
        use_cpu=True,
        ddp_backend="gloo",
        report_to=[],
        disable_tqdm=True,
        save_only_model="only_model" in sys.argv,
    )
    Small(model=model, args=arguments, train_dataset=Data(), eval_dataset=Data()).train()


forked.run(main)
