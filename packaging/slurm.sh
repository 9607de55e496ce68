#!/bin/bash
# sbatch packaging/slurm.sh train.py: one rank a core of four nodes.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=01:00:00
set -euo pipefail
exec collalgo run python "$@"
