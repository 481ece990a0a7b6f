"""What operators say: who may say it, approval, and toolsets with their rows, their upkeep and what a caller sees."""
