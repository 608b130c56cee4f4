#include "lib/stacks/python/futures.h"

#include <string_view>

namespace dlprobe {
namespace {

// The value of a dict with that key, a str; 0: there is none.
uint64_t item_of(PythonValues& values, uint64_t dict, std::string_view key) {
  constexpr uint64_t kItemsOfModule = 10'000;
  const PythonType* type = values.type_of(dict);
  if (type == nullptr || !type->is_dict()) return 0;
  for (const auto& [name, value] : values.items(dict, *type, kItemsOfModule))
    if (values.text(name) == key) return value;
  return 0;
}

}  // namespace

uint64_t PythonFutures::find_class() {
  constexpr uint64_t kDictOfModule = 16;  // PyModuleObject.md_dict
  const auto interpreters = list_python_interpreters(values_.memory(), runtime_);
  if (!interpreters) return 0;
  const uint64_t modules = values_.word(interpreters->back() + runtime_.layout.interpreter.modules);
  const uint64_t module = item_of(values_, modules, "concurrent.futures._base");
  return module == 0 ? 0 : item_of(values_, values_.word(module + kDictOfModule), "Future");
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
