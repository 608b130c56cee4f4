#!/bin/bash
# Gates this node, then runs torchrun and its ranks under dlprobe. On each node:
#
#   torchrun.sh --nproc_per_node=8 --nnodes=2 --rdzv_endpoint=n1:29400 -- train.py --epochs 3
#
# Reports: $OUT/NODE.gate.json; $OUT/NODE.json of all ranks of the node. `dlprobe report merge $OUT` joins the nodes.
set -eu
out=${OUT:-$PWD/dlprobe-reports}
python=${PYTHON:-python3}
mkdir -p "$out"

options=()
while (($# > 0)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
(($# > 1)) || { echo "usage: torchrun.sh [options of torchrun] -- script [arguments]" >&2; exit 2; }
shift

# Once for the node, not for each rank: eight gates at a time would measure one another.
dlprobe gate --deadline 60s --workers "${WORKERS:-4}" --batch-size "${BATCH:-64}" --sample-shape "${SHAPE:-3x224x224}" \
  -q -f human -f json="$out/%h.gate.json"

# One dlprobe sees all ranks of the node: which one the others wait for, and why.
exec dlprobe run --hang-after "${HANG_AFTER:-10m}" --on-hang kill -f json="$out/%h.json" -f human -- \
  "$python" -m torch.distributed.run "${options[@]}" "$@"
