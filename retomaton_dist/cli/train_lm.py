"""`retomaton train-lm`: a small language model from scratch, or fine-tuning."""
