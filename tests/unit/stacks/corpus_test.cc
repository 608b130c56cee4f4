#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>

#include "lib/foreign/syscalls.h"
#include "tests/fuzz/read_one.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

/// tests/fuzz/corpus_of_bytes/READER/*: seeds that are understood, and below a folder `odd` every
/// input that ever broke the reader. Each is given whole, seeds cut off at many places, too.
TEST(FuzzCorpus, EveryReaderComesBack) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DLPROBE_FUZZ_CORPUS)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_text(entry.path());
    const auto bytes = std::as_bytes(std::span(text));
    auto folder = entry.path().parent_path();
    const bool is_odd = folder.filename() == "odd";
    if (is_odd) folder = folder.parent_path();
    const std::string reader = folder.filename();
    const auto understood = read_one(reader, bytes);
    ASSERT_TRUE(understood) << "no reader for " << entry.path();
    // The programs of the corpus are those of an x86_64.
    const bool is_native =
        own_syscall_machine() == "x86_64" || (reader != "elf" && reader != "unwind");
    EXPECT_TRUE(is_odd || !is_native || *understood > 0) << entry.path();
    const size_t cuts = is_odd ? 0 : 32;
    for (size_t cut = 0; cut < cuts; ++cut)
      read_one(reader, bytes.first(bytes.size() * cut / cuts));
    ++files;
  }
  EXPECT_GE(files, 18U);
}

}  // namespace
}  // namespace dlprobe
