#!/bin/bash
# Slurm Epilog: says what a job has left in /dev/shm. It removes nothing, and never fails: a failing epilog drains the node.
#
# slurm.conf:  Epilog=/etc/slurm/epilog.sh
#
# Removing is for a person: the report has the command, for files whose makers are dead and that nobody has open.
set -u
export PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
logs=${DLPROBE_LOGS:-/var/log/dlprobe}
(umask 077 && mkdir -p "$logs")

# Nothing of this user's there: nothing to ask.
[[ -n $(find /dev/shm -xdev -type f -uid "${SLURM_JOB_UID:?}" -print -quit 2>/dev/null) ]] || exit 0

report=$logs/${SLURMD_NODENAME:-$(hostname -s)}.epilog-${SLURM_JOB_ID:?}.json
# PyTorch's helpers clean up within 2 s of a job's death. This watches for 4 s, from this shell's place, what stays.
text=$(timeout -k 2 30 dlprobe shm --pid $$ --for 4s -f github -f json="$report" 2>/dev/null)
# One line for each finding; DLP0103: the makers are dead and nobody has the files.
if [[ $text == *title=DLP0103* ]]; then
  message="job $SLURM_JOB_ID of uid $SLURM_JOB_UID: stale files in /dev/shm: dlprobe report render $report"
  logger -t dlprobe -- "$message" 2>/dev/null || printf 'dlprobe: %s\n' "$message" >&2
else
  rm -f -- "$report"
fi
exit 0
