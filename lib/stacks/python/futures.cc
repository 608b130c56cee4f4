#include "lib/stacks/python/futures.h"

namespace dlprobe {

uint64_t PythonFutures::find_class() {
  return values_.global("concurrent.futures._base", "Future");
}

std::optional<PythonFailure> PythonFutures::read(uint64_t future) {
  constexpr uint64_t kAttributesOfFuture = 16;
  const PythonType* type = values_.type_of(future);
  if (type == nullptr) return std::nullopt;
  for (const auto& [name, value] : values_.attributes(future, *type, kAttributesOfFuture)) {
    const PythonType* of_value =
        values_.text(name) == "_exception" ? values_.type_of(value) : nullptr;
    if (of_value == nullptr || !of_value->is_exception()) continue;
    auto failure = read_python_failure(values_.memory(), runtime_, cache_, value);
    if (failure) return std::move(*failure);
  }
  return std::nullopt;
}

}  // namespace dlprobe
