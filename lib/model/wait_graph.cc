#include "lib/model/wait_graph.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<Activity, 9> kActivities = {{
    {Activity::kUnknown, "unknown"},
    {Activity::kStuck, "stuck"},
    {Activity::kWaiting, "waiting"},
    {Activity::kIdle, "idle"},
    {Activity::kRunning, "running"},
    {Activity::kSpinning, "spinning"},
    {Activity::kSleeping, "sleeping"},
    {Activity::kStopped, "stopped"},
    {Activity::kBlockedInKernel, "blocked in the kernel"},
}};

}  // namespace

std::string_view to_string(Activity activity) {
  return name_of(kActivities, activity);
}

}  // namespace dlprobe
