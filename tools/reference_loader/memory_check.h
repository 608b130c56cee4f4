#pragma once

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {

/// kInvalid if the plan could fill this machine's memory: pages of /dev/shm cannot be reclaimed,
/// and a tool that looks for trouble must not drive the kernel to kill other processes.
Status check_memory(const LoaderPlan& plan, const FaultEffects& effects);

}  // namespace dlprobe::loader
