#include "tools/dlprobe/config/own_environment.h"

#include <cstdlib>

namespace dlprobe {

std::optional<std::string> own_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace dlprobe
