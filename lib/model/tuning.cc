#include "lib/model/tuning.h"

#include <algorithm>

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<TuneVariant, 4> kVariants = {{
    {TuneVariant::kWhole, "whole"},
    {TuneVariant::kLoaderAlone, "loader-alone"},
    {TuneVariant::kStepAlone, "step-alone"},
    {TuneVariant::kOneThread, "one-thread"},
}};

constexpr NameTable<TuneOutcome, 3> kOutcomes = {{
    {TuneOutcome::kMeasured, "measured"},
    {TuneOutcome::kNotStarted, "not-started"},
    {TuneOutcome::kFailed, "failed"},
}};

constexpr NameTable<TuneLimit, 4> kLimits = {{
    {TuneLimit::kUnknown, "unknown"},
    {TuneLimit::kConsumer, "consumer"},
    {TuneLimit::kLoader, "loader"},
    {TuneLimit::kCpus, "cpus"},
}};

}  // namespace

std::string_view to_string(TuneVariant variant) {
  return name_of(kVariants, variant);
}
TuneVariant tune_variant_from_string(std::string_view name) {
  return value_of(kVariants, name).value_or(TuneVariant::kWhole);
}
std::string_view to_string(TuneOutcome outcome) {
  return name_of(kOutcomes, outcome);
}
std::string_view to_string(TuneLimit limit) {
  return name_of(kLimits, limit);
}

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
