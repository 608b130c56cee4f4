#pragma once

#include "probes/probe.h"

namespace dlprobe {

/// What `dlprobe gate` says of the machine and of short runs of the reference loader: every probe's
/// findings, its own, and named checks (Verdict::checks). What could not be made of a check that
/// the verdict rests on is a gap: never a pass.
const Probe& gate_probe();

}  // namespace dlprobe
