#include <cstddef>
#include <cstdint>

#include "tests/fuzz/text_one.h"

/// libFuzzer's entry for one reader: dlprobe_report_fuzzer NEW_FOLDER
/// tests/fuzz/corpus_of_texts/report
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  dlprobe::text_one(DLPROBE_FUZZ_READER, {reinterpret_cast<const char*>(data), size});
  return 0;
}
