#pragma once

#include <optional>
#include <string>

#include "lib/model/finding.h"
#include "probes/facts/deaths.h"

namespace dlprobe {

/// What shows that the kernel's OOM killer ended a process, and whose limit was reached.
struct OomProof {
  Confidence confidence = Confidence::kCertain;
  std::optional<bool> whole_host;  ///< not a cgroup's limit; none: not known
  std::string limited_cgroup;      ///< empty: not known
};

/// Nothing where the OOM killer did not end it, or nothing shows that it did.
std::optional<OomProof> oom_proof(const ExitFacts& facts, const Death& death);

}  // namespace dlprobe
