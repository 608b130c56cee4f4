#!/bin/bash
# Gates every node of an Open MPI job, then runs each rank under dlprobe:
#
#   mpirun.sh -np 16 --hostfile hosts -- python train.py
#
# $OUT must be a folder that every node sees. Reports: $OUT/gate/NODE.json, $OUT/ranks/NODE.RANK.json.
set -eu
out=${OUT:-$PWD/dlprobe-reports}
mkdir -p "$out/gate" "$out/ranks"

options=()
while (($# > 0)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
(($# > 1)) || { echo "usage: mpirun.sh [options of mpirun] -- command [arguments]" >&2; exit 2; }
shift

# mpirun ends all ranks when the first one fails: the other nodes' reports would be lost. So no rank of the gate fails, and the
# verdict is that of the merged report. Ranks beside the first of a node have nothing to do.
# shellcheck disable=SC2016  # the variables are for the shell on the node
mpirun "${options[@]}" sh -c '[ "${OMPI_COMM_WORLD_LOCAL_RANK:-0}" = 0 ] || exit 0
  out=$1; shift; dlprobe gate "$@" -f json="$out/%h.json" -q -f human || :' \
  gate "$out/gate" --deadline 60s --workers "${WORKERS:-4}" --batch-size "${BATCH:-64}" --sample-shape "${SHAPE:-3x224x224}"
# One name on each line in EXPECT, where a node that says nothing is to be missed.
dlprobe report merge "$out/gate" ${EXPECT:+--expect-hosts "@$EXPECT"} -f human -f html="$out/gate.html"

# A second is what mpirun gives the others to end when one rank fails; dlprobe needs some to write its report.
exec mpirun --mca odls_base_sigkill_timeout 20 "${options[@]}" \
  dlprobe run --hang-after "${HANG_AFTER:-10m}" --on-hang kill -f json="$out/ranks/%h.%r.json" -f human -- "$@"
