#!/bin/bash
# A running job hangs: looks at all its ranks from beside it, once on each node, and names the cause. For the job's owner.
#
#   hang.sh JOBID [options of dlprobe attach]
set -eu
job=${1:?usage: hang.sh JOBID [options of dlprobe attach]}
shift
out=${OUT:-$PWD/dlprobe-hang-$job}
mkdir -p "$out"

# --overlap: beside the step that runs; --gres=none: without waiting for its GPUs.
# A node that finds something wrong is no failure of srun's.
# shellcheck disable=SC2016  # the variables are for the shell on the node
srun --jobid="$job" --nodes="$(squeue -h -j "$job" -o %D)" --overlap --gres=none --ntasks-per-node=1 bash -c '
  out=$1
  shift
  dlprobe attach --job "$@" -q -f human -f json="$out/%h.json" || :' hang "$out" "$@"
exec dlprobe report merge "$out" -f human -f html="$out/hang.html"
