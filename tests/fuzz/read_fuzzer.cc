#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/read_one.h"

/// libFuzzer's entry for one reader: dlprobe_elf_fuzzer NEW_FOLDER tests/fuzz/corpus_of_bytes/elf
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlprobe::read_one(DLPROBE_FUZZ_READER, std::as_bytes(std::span(data, size)));
  return 0;
}
