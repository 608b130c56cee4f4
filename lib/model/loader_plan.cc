#include "lib/model/loader_plan.h"

namespace dlprobe {

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
