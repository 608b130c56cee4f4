#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/parse_one.h"

/// libFuzzer's entry: proc_fuzzer NEW_FOLDER tests/fuzz/corpus/*
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  dlprobe::parse_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
