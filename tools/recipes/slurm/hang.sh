#!/bin/bash
# A running job hangs: looks at each of its tasks from beside it, on all its nodes, and names the cause. For the job's owner.
#
#   hang.sh JOBID [options of dlprobe attach]
set -eu
job=${1:?usage: hang.sh JOBID [options of dlprobe attach]}
shift
out=${OUT:-$PWD/dlprobe-hang-$job}
mkdir -p "$out"

# --overlap: beside the step that runs; --gres=none: without waiting for its GPUs.
# A line of listpids with a local task number is the first process of a task. Not those of this step.
# shellcheck disable=SC2016  # the variables are for the shell on the node
srun --jobid="$job" --nodes="$(squeue -h -j "$job" -o %D)" --overlap --gres=none --ntasks-per-node=1 bash -c '
  out=$1
  shift
  scontrol listpids "$SLURM_JOB_ID" "$SLURMD_NODENAME" | while read -r pid _ step task rank; do
    [[ $task == [0-9]* && $step == [0-9]* && $step != "$SLURM_STEP_ID" ]] || continue
    dlprobe attach "$pid" "$@" -q -f human -f json="$out/%h.$rank.json" </dev/null || :
  done' hang "$out" "$@"
exec dlprobe report merge "$out" -f human -f html="$out/hang.html"
