#!/bin/bash
# A pod's loader hangs: look at it from a container beside it. Nothing in the pod is restarted.
#
#   debug.sh POD CONTAINER [options of dlprobe attach]
#
# --target shares the container's processes: its command is process 1. --profile=general adds SYS_PTRACE, without which stacks
# cannot be read. A namespace with the Pod Security level baseline or restricted refuses it.
set -eu
pod=${1:?usage: debug.sh POD CONTAINER [options]}
container=${2:?usage: debug.sh POD CONTAINER [options]}
shift 2
exec kubectl debug "$pod" --target="$container" --profile=general --image="${DLPROBE_IMAGE:-registry.example/dlprobe:stable}" \
  --stdin --tty -- dlprobe attach 1 "$@"
