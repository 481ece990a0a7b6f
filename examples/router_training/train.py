"""Trains a router as ToolACE-MCP does: a LoRA adapter over chat samples of `waygraph generate router-data`.

    python train.py train.jsonl adapter --rank RANK --learning-rate RATE

The defaults are the paper's values. Rank and rate are lost in the copy that this follows, so you have to say them.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def read_samples(path: Path) -> Dataset:
    """All but the last message is the prompt: the loss is that of the answer alone."""
    samples = [json.loads(line)["messages"] for line in path.read_text(encoding="utf-8").splitlines()]
    return Dataset.from_list([{"prompt": messages[:-1], "completion": messages[-1:]} for messages in samples])


def train(options: argparse.Namespace) -> list[float]:
    """Writes adapter and tokenizer. The loss of each step."""
    adapter = LoraConfig(
        r=options.rank, lora_alpha=2 * options.rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    config = SFTConfig(
        output_dir=str(options.output),
        num_train_epochs=options.epochs,
        max_steps=options.steps,
        per_device_train_batch_size=options.at_once,
        gradient_accumulation_steps=options.batch // options.at_once,
        gradient_checkpointing=True,
        learning_rate=options.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,  # below 1: a share of all steps
        max_length=options.tokens,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        seed=options.seed,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.bfloat16),
        args=config,
        train_dataset=read_samples(options.samples),
        processing_class=AutoTokenizer.from_pretrained(options.model),
        peft_config=adapter,
    )
    trainer.train()
    trainer.save_model()
    log: list[dict[str, Any]] = trainer.state.log_history
    return [step["loss"] for step in log if "loss" in step]


def options_of_caller() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path, help="chat samples, one a line")
    parser.add_argument("output", type=Path, help="folder for the adapter")
    parser.add_argument("--model", default="Qwen/Qwen3-8B", help="a name of the Hugging Face hub, or a folder")
    parser.add_argument("--rank", type=int, required=True, help="of the adapter's matrices; alpha is twice as much")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--steps", type=int, default=-1, help="so many in place of epochs")
    parser.add_argument("--batch", type=int, default=64, help="samples a step, on each device")
    parser.add_argument("--at-once", type=int, default=1, help="samples in memory at a time")
    parser.add_argument("--tokens", type=int, default=32_768, help="a sample's at most")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


if __name__ == "__main__":
    print(json.dumps({"losses": train(options_of_caller())}))
