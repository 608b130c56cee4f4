#pragma once

#include <span>
#include <vector>

#include "lib/model/finding.h"

namespace dlprobe {

/// What several probes say of one recording, put together: errors first, of these causes before
/// their consequences, what others have left on the machine last, and the surer ones before the
/// rest; what two probes say alike is said once.
Verdict merge_verdicts(std::vector<Verdict> verdicts);

/// Who waits for a process that was killed, or for what it held, waits for ever: of such findings
/// in the same run, seen after it, the death is the cause. So is what ended a rank that others wait
/// for.
void mark_hangs_after_deaths(std::span<Finding> hangs, std::span<Finding> deaths);

/// A thread has its stack mapped, and a guard: mappings that grow where threads do are theirs.
/// Which of several workers a finding names is no matter, they do the same. And whoever starts a
/// process keeps pipes to it.
void mark_what_comes_with_tasks(std::span<Finding> findings, std::span<const Finding> ends);

/// A process whose memory grew until a limit refused it more: the growth is the cause. So it is of
/// mappings that grow meanwhile: a large array is one.
void mark_limits_of_leaks(std::span<Finding> findings, std::span<Finding> ends);

/// Adds those that are not there yet.
void add_gaps(std::vector<Gap>& all, std::vector<Gap> more);

}  // namespace dlprobe
