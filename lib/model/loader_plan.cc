#include "lib/model/loader_plan.h"

namespace dlprobe {

std::string_view to_string(StartMethod method) {
  switch (method) {
    case StartMethod::kFork:
      return "fork";
    case StartMethod::kSpawn:
      return "spawn";
    case StartMethod::kForkserver:
      return "forkserver";
  }
  return "fork";
}

std::string_view to_string(SharingStrategy strategy) {
  return strategy == SharingStrategy::kFileSystem ? "file_system" : "file_descriptor";
}

std::optional<StartMethod> start_method_from_string(std::string_view name) {
  for (const StartMethod method : kStartMethods) {
    if (to_string(method) == name) return method;
  }
  return std::nullopt;
}

std::optional<SharingStrategy> sharing_strategy_from_string(std::string_view name) {
  for (const SharingStrategy strategy : kSharingStrategies) {
    if (to_string(strategy) == name) return strategy;
  }
  return std::nullopt;
}

std::optional<uint64_t> dtype_bytes(std::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) return dtype.element_bytes;
  }
  return std::nullopt;
}

uint64_t sample_bytes(const LoaderPlan& plan) {
  uint64_t bytes = dtype_bytes(plan.dtype).value_or(4);
  for (const int64_t extent : plan.sample_shape)
    bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

}  // namespace dlprobe
