#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/parse_one.h"

/// libFuzzer's entry. Run it with a folder of its own, then tests/fuzz/corpus/any for the seeds.
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  dlprobe::parse_any({reinterpret_cast<const char*>(data), size});
  return 0;
}
