#!/bin/bash
#SBATCH --job-name=train
#SBATCH --ntasks-per-node=1
# Gate every node, look at all of them at once, train if all are fit.

out=${OUT:-$PWD/dlprobe-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}}
mkdir -p "$out"

# No -K (--kill-on-bad-exit): it would end the other nodes' gates before they have reported.
# Name the shape of your loader: the forecast is only as good as that.
srun --ntasks-per-node=1 dlprobe gate --deadline 60s \
  --workers "${WORKERS:-4}" --batch-size "${BATCH:-64}" --sample-shape "${SHAPE:-3x224x224}" -q -f human -f json="$out/%h.json"

# A node that said nothing is no healthy node: --expect-hosts auto takes the names from Slurm.
# 1: a node is unfit; 3: one could not tell, or said nothing.
dlprobe report merge "$out" --expect-hosts auto -f human -f html="$out/cluster.html" || exit $?

if (($# > 0)); then
  exec srun "$@"
fi
