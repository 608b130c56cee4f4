#!/bin/bash
# A job of several pods hangs: looks at all ranks of each, and names the cause. dlprobe has to be in their image (else: debug.sh).
#
#   hang.sh SELECTOR CONTAINER [options of dlprobe attach]
#   hang.sh training.kubeflow.org/job-name=train pytorch     # a PyTorchJob of Kubeflow's Trainer v1
#   hang.sh jobset.sigs.k8s.io/jobset-name=train node        # a TrainJob of v2
set -eu
selector=${1:?usage: hang.sh SELECTOR CONTAINER [options]}
container=${2:?usage: hang.sh SELECTOR CONTAINER [options]}
shift 2
out=${OUT:-$PWD/dlprobe-hang}
mkdir -p "$out"

pods=$(kubectl get pods --selector="$selector" --field-selector=status.phase=Running -o name)
for pod in $pods; do
  # The container's command is process 1. One pod that cannot be looked at leaves the others.
  kubectl exec "$pod" -c "$container" -- dlprobe attach 1 "$@" --json >"$out/${pod##*/}.json" </dev/null || : &
done
wait
exec dlprobe report merge "$out" -f human -f html="$out/hang.html"
