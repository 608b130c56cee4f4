#!/bin/bash
#SBATCH --job-name=train
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:USR1@180
# Gate every node, look at all of them at once, train if all are fit. A job that is about to run into its time limit says what its
# ranks wait for: --signal has Slurm tell this script so three minutes before. `scancel --batch --signal=USR1 JOB` asks at any time.

out=${OUT:-$PWD/dlprobe-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}}
mkdir -p "$out"

# No -K (--kill-on-bad-exit): it would end the other nodes' gates before they have reported.
# Name the shape of your loader: the forecast is only as good as that.
srun --ntasks-per-node=1 dlprobe gate --deadline 60s \
  --workers "${WORKERS:-4}" --batch-size "${BATCH:-64}" --sample-shape "${SHAPE:-3x224x224}" -q -f human -f json="$out/%h.json"

# A node that said nothing is no healthy node: --expect-hosts auto takes the names from Slurm.
# 1: a node is unfit; 3: one could not tell, or said nothing.
dlprobe report merge "$out" --expect-hosts auto -f human -f html="$out/cluster.html" || exit $?

(($# > 0)) || exit 0

# shellcheck disable=SC2317  # the trap calls it
look() {
  mkdir -p "$out/hang"
  srun --overlap --gres=none --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" \
    dlprobe attach --job -q -f human -f json="$out/hang/%h.json" || :
  dlprobe report merge "$out/hang" -f human -f html="$out/hang.html" || :
  looked=yes
}
trap look USR1
srun "$@" &
# A trap interrupts `wait`, which then gives no code of the job's.
while looked=no; wait $!; code=$?; [[ $looked == yes ]]; do :; done
exit "$code"
