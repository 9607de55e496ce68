"""What peers choose by default: files of rules, and the model of NCCL."""
