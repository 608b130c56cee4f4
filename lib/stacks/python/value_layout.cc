#include "lib/stacks/python/value_layout.h"

#include <array>
#include <string>
#include <utility>

namespace dlprobe {
namespace {

constexpr PythonValueLayout kValues38{
    .attributes = PythonAttributes::kDict,
    .cached_keys = 872,
    .function_code = 16,
    .code_names = 64,
    .locals_names = 72,
    .frame_globals = 48,
    .frame_locals = 360,
    .old_keys = true,
};

constexpr PythonValueLayout values310() {
  PythonValueLayout layout = kValues38;
  layout.function_code = 48;
  layout.frame_locals = 352;
  return layout;
}

constexpr PythonValueLayout kValues311{
    .attributes = PythonAttributes::kTwoPointers,
    .cached_keys = 872,
    .function_code = 48,
    .code_names = 32,
    .locals_names = 96,
    .frame_globals = 8,
    .frame_locals = 72,
};

constexpr PythonValueLayout values312() {
  PythonValueLayout layout = kValues311;
  layout.attributes = PythonAttributes::kTaggedPointer;
  layout.cached_keys = 880;
  layout.frame_globals = 24;
  return layout;
}

constexpr PythonValueLayout values313() {
  PythonValueLayout layout = values312();
  layout.attributes = PythonAttributes::kInline;
  layout.values = 8;
  return layout;
}

constexpr int kFirstWithValues = 8;
constexpr std::array kValueLayouts{kValues38,  kValues38,   values310(),
                                   kValues311, values312(), values313()};

}  // namespace

Expected<PythonValueLayout> python_value_layout(const PythonVersion& version) {
  const int index = version.minor - kFirstWithValues;
  if (version.major != 3 || index < 0 || std::cmp_greater_equal(index, kValueLayouts.size()))
    return failure(ErrorCode::kUnsupported, "read the values of Python " + to_string(version));
  return kValueLayouts.at(static_cast<size_t>(index));
}

}  // namespace dlprobe
