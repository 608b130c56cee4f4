#!/bin/bash
# Slurm Prolog and HealthCheckProgram in one: a node that cannot carry a data loader is drained, with the reason.
#
# slurm.conf:
#   Prolog=/etc/slurm/gate-node.sh
#   PrologFlags=Alloc                            # before the first step, once on each node of the job
#   SchedulerParameters=nohold_on_prolog_fail    # the job goes to another node instead of being held
#   HealthCheckProgram=/etc/slurm/gate-node.sh
#   HealthCheckInterval=900
#   HealthCheckNodeState=IDLE                    # a busy node's /dev/shm is full for a good reason
#
# Only exit code 1, a failure that was proven, drains. A warning is for the log. "Could not tell" (3), a wrong option (2), a
# bug (4) and a missing program (127) say nothing about the node: one bad roll-out must not drain the cluster.
#
# It sees what root sees before the job: this node's memory, /dev/shm, folders and clock, not the job's own limits.
# For those, gate inside the job, too (job.sh).
set -u
export PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
node=${SLURMD_NODENAME:-$(hostname -s)}
logs=${DLPROBE_LOGS:-/var/log/dlprobe}
(umask 077 && mkdir -p "$logs")

# The line is made for node-problem-detector: ASCII, at most 80 bytes, which is what a reason should be, too.
# Slurm kills a health check after 60 s; the quick level takes a fraction of one, and starts nothing.
line=$(timeout -k 2 30 dlprobe gate --level quick --deadline 10s -f npd -f json="$logs/$node.json" 2>&1)
status=$?

say() { logger -t dlprobe -- "$node: $1" 2>/dev/null || printf 'dlprobe: %s: %s\n' "$node" "$1" >&2; }

case $status in
  0) [[ $line == "ok: "* ]] || say "$line" ;;
  1)
    say "$line"
    # Slurm asks a prolog to call no Slurm command, for the load. This one does so only to drain; without it the
    # reason would be "Prolog error". An administrator's own reason stays: a node that is drained is left alone.
    if ! timeout 10 scontrol -o show node "$node" | grep -q 'State=[A-Z+]*DRAIN'; then
      timeout 10 scontrol update "nodename=$node" state=drain "reason=${line%%$'\n'*}"
    fi
    exit 1
    ;;
  *) say "not checked (exit code $status): $line" ;;
esac
exit 0
