"""The default decisions of peers: rules files, and the tuning model of NCCL."""
