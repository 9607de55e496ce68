"""The compiled loops of execution order and proof."""
