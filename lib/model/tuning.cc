#include "lib/model/tuning.h"

#include <algorithm>

namespace dlprobe {
namespace {}  // namespace

LoaderPlan plan_of(const LoaderPlan& base, const TuneSetting& setting) {
  LoaderPlan plan = base;
  plan.workers = setting.workers;
  plan.prefetch_factor = setting.prefetch_factor;
  plan.start_method = setting.start_method;
  return plan;
}

double usable_cpus(const TuneRequest& request) {
  const double cpus = std::max(request.cpus, 1);
  return std::min(cpus, request.quota_cpus.value_or(cpus));
}

}  // namespace dlprobe
