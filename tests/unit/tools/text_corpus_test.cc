#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "tests/fuzz/text_one.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

/// tests/fuzz/corpus_of_texts/READER/*: seeds, and every text that ever broke the reader. Each is
/// given whole, and cut off at many places.
TEST(FuzzCorpus, EveryReaderOfTextKeepsItsPromises) {
  size_t texts = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DLPROBE_FUZZ_CORPUS)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_text(entry.path());
    const std::string reader = entry.path().parent_path().filename();
    ASSERT_TRUE(text_one(reader, text)) << "no reader for " << entry.path();
    constexpr size_t kCuts = 32;
    for (size_t cut = 0; cut < kCuts; ++cut)
      text_one(reader, std::string_view(text).substr(0, text.size() * cut / kCuts));
    ++texts;
  }
  EXPECT_GE(texts, 20U);
}

}  // namespace
}  // namespace dlprobe
