"""The default decisions of peers: files of rules, and the tuning model of NCCL."""
