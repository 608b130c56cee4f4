#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/fuzz/parse_one.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

/// tests/fuzz/corpus/PARSER/*: texts of real kernels, and every text that ever broke a parser. Each
/// is given whole, and cut off at every byte.
TEST(FuzzCorpus, EveryParserComesBack) {
  size_t texts = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DLPROBE_FUZZ_CORPUS)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_text(entry.path());
    const std::string parser = entry.path().parent_path().filename();
    ASSERT_TRUE(parse_one(parser, text)) << "no parser for " << entry.path();
    for (size_t length = 0; length < text.size(); ++length) {
      parse_one(parser, std::string_view(text).substr(0, length));
    }
    ++texts;
  }
  EXPECT_GE(texts, 18U);
}

}  // namespace
}  // namespace dlprobe
