#include "lib/stacks/python/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dlprobe {
namespace {

constexpr PythonLayout kPython38{
    .position = PythonPosition::kByte,
    .line_table = PythonLineTable::kDeltas,
    .entry = PythonEntry::kEveryFrame,
    .runtime = {.interpreters_head = 32, .gil = 1152, .gc_collecting = 544},
    .interpreter = {.next = 0, .threads_head = 8, .modules = 56},
    .thread = {.frame = 24, .thread_id = 176},
    .frame = {.previous = 24, .code = 32, .position = 104, .value_stack = 64, .locals = 360},
    .code = {.first_line = 40, .file = 104, .name = 112, .line_table = 120, .stack_size = 32},
    .coroutine = {.frame = 16},
    .unicode = {.ascii_size = 48, .compact_size = 72},
};

constexpr PythonLayout python39() {
  PythonLayout layout = kPython38;
  layout.runtime = {.interpreters_head = 32, .gil = 352};
  layout.interpreter = {.next = 0, .threads_head = 8, .modules = 856, .gc_collecting = 816};
  return layout;
}

constexpr PythonLayout python310() {
  PythonLayout layout = python39();
  layout.position = PythonPosition::kInstruction;
  layout.line_table = PythonLineTable::kRanges;
  layout.frame.position = 96;
  layout.frame.locals = 352;
  return layout;
}

constexpr PythonLayout kPython311{
    .entry = PythonEntry::kFlag,
    .runtime = {.interpreters_head = 40, .gil = 360},
    .interpreter = {.next = 0, .threads_head = 16, .modules = 888, .gc_collecting = 848},
    .thread = {.frame = 56, .frame_in_cframe = 8, .thread_id = 152, .native_thread_id = 160},
    .frame = {.previous = 48, .code = 32, .position = 56, .stack_top = 64, .is_entry = 68},
    .code = {.first_line = 72,
             .qualified_name = 128,
             .stack_size = 68,
             .locals_count = 76,
             .instructions = 184},
    .coroutine = {.frame = 80},
    .unicode = {.ascii_size = 48, .compact_size = 72},
};

constexpr PythonLayout kPython312{
    .runtime = {.interpreters_head = 40},
    .interpreter =
        {.next = 0, .threads_head = 72, .modules = 944, .gil = 384, .gc_collecting = 312},
    .thread = {.frame = 56, .frame_in_cframe = 0, .thread_id = 136, .native_thread_id = 144},
    .frame = {.previous = 8, .code = 0, .position = 56, .stack_top = 64, .owner = 70},
    .code = {.first_line = 68,
             .qualified_name = 128,
             .stack_size = 64,
             .locals_count = 72,
             .instructions = 192},
};

constexpr PythonLayout kPython313{
    .runtime = {.interpreters_head = 632},
    .interpreter =
        {.next = 7264, .threads_head = 7344, .modules = 7656, .gil = 16, .gc_collecting = 7600},
    .thread = {.frame = 72, .thread_id = 152, .native_thread_id = 160},
    .frame = {.previous = 8, .code = 0, .position = 56, .stack_top = 64, .owner = 70},
    .code = {.first_line = 68,
             .qualified_name = 128,
             .stack_size = 64,
             .locals_count = 72,
             .instructions = 200},
};

constexpr PythonLayout python314() {
  PythonLayout layout = kPython313;
  layout.runtime = {.interpreters_head = 0};  // only ever by _Py_DebugOffsets
  layout.interpreter.next = 7272;
  layout.interpreter.modules = 7664;
  layout.frame.locals = 80;
  layout.frame.stack_top = 0;
  layout.frame.owner = 74;
  layout.code.instructions = 208;
  return layout;
}

constexpr int kFirstMinor = 8;
constexpr std::array kLayouts{kPython38,  python39(), python310(), kPython311,
                              kPython312, kPython313, python314()};

}  // namespace

PythonVersion python_version_from_hex(uint64_t hex) {
  const auto byte = [hex](unsigned shift) { return static_cast<int>((hex >> shift) & 0xff); };
  return {.major = byte(24), .minor = byte(16), .micro = byte(8)};
}

std::string to_string(const PythonVersion& version) {
  if (version.micro < 0) return fmt::format("{}.{}", version.major, version.minor);
  return fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
}

Expected<PythonLayout> python_layout(const PythonVersion& version) {
  const int index = version.minor - kFirstMinor;
  if (version.major != 3 || index < 0 || std::cmp_greater_equal(index, kLayouts.size())) {
    return failure(ErrorCode::kUnsupported, "read the frames of Python " + to_string(version));
  }
  return kLayouts.at(static_cast<size_t>(index));
}

}  // namespace dlprobe
