#pragma once

#include <span>
#include <string_view>

#include "lib/model/finding.h"

namespace dlprobe {

/// What may be behind `typed`, the most frequent first, where it has a text that PyTorch, CPython,
/// a library, the shell or a scheduler prints where a job fails, and that no finding's page quotes
/// or several share; or says how a process ended: "exit code 137", "exitcode: -9", "SIGKILL".
/// Empty: neither. Such a text says nothing sure of the cause.
std::span<const FindingCode> asked_codes(std::string_view typed);

}  // namespace dlprobe
