#pragma once

#include "probes/probe.h"

namespace dlprobe {

/// What the runs of `dlprobe tune` say: the table and the recommendation (Verdict::tune), DLP0601,
/// DLP0602. A subcommand of its own; no part of the others.
const Probe& tune_probe();

}  // namespace dlprobe
