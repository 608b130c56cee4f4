// docs/recording-format.md lists every key. That part of the page is made here, from the field
// lists.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/recording.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPage = DLPROBE_DOCS_DIR "/recording-format.md";
constexpr std::string_view kMark =
    "<!-- From here on made by tests/unit/record/format_page_test.cc; to write it anew, "
    "run record_test with DLPROBE_WRITE_DOCS=1 -->\n";

// "ProcessInfo" of a type, as the compiler spells it.
template <class T>
std::string name_of_type() {
  const std::string text = __PRETTY_FUNCTION__;
  const size_t begin =
      text.find("dlprobe::", text.find("T = ")) + std::string_view("dlprobe::").size();
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

std::string linked(const std::string& name) {
  std::string anchor;
  for (const char letter : name)
    anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return "[" + name + "](#" + anchor + ")";
}

// What stands in a cell of a table: no bar, no tag.
std::string cell(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '|' || letter == '<' || letter == '*' || letter == '_') result += '\\';
    result += letter;
  }
  return result;
}

class Page {
 public:
  template <Listed T>
  void add_table() {
    std::string rows;
    for_each_field<T>([&]<class V>(const Field<T, V>& field) {
      std::string type = type_of(static_cast<const V*>(nullptr));
      if (field.unit != Unit::kNone) type = std::string(to_string(field.unit));
      rows += "| `" + std::string(field.key) + "` | " + type + " | " + cell(field.doc) + " |\n";
    });
    text_ += "\n| key | holds | meaning |\n| --- | --- | --- |\n" + rows;
  }

  void add_header() {
    text_ += "## The header\n";
    add_table<RecordingHeader>();
  }

  void add_records() {
    text_ += "\n## The records\n";
    for_each_field<Run>([&]<class V>(const Field<Run, V>& field) {
      text_ += "\n### Record `" + std::string(field.key) + "`\n\n" + std::string(field.doc) + ".\n";
      add_table<typename RecordOf<V>::type>();
    });
  }

  // A part may have parts of its own, which come after it.
  void add_parts() {
    text_ += "\n## Parts of records\n";
    for (size_t i = 0; i < parts_.size(); ++i) {
      text_ += "\n### " + parts_[i].name + "\n";
      parts_[i].add(*this);
    }
  }

  const std::string& text() const { return text_; }

 private:
  struct Part {
    std::string name;
    void (*add)(Page& page);
  };

  static std::string type_of(const std::string* /*type*/) { return "text"; }
  std::string type_of(const Message* /*type*/) {
    return "message of " + type_of(static_cast<const MessagePart*>(nullptr));
  }
  static std::string type_of(const char* /*type*/) { return "letter"; }
  static std::string type_of(const bool* /*type*/) { return "yes or no"; }
  static std::string type_of(const ProcessKey* /*type*/) { return "process"; }
  template <class T>
    requires std::is_arithmetic_v<T>
  static std::string type_of(const T* /*type*/) {
    return "number";
  }
  template <NamedEnum T>
  static std::string type_of(const T* /*type*/) {
    std::string names;
    for (const T value : kValues<T>)
      names += (names.empty() ? "" : ", ") + std::string(to_string(value));
    return names;
  }
  template <class T>
  std::string type_of(const std::optional<T>* /*type*/) {
    return type_of(static_cast<const T*>(nullptr));
  }
  template <class T>
  std::string type_of(const Observed<T>* /*type*/) {
    return type_of(static_cast<const T*>(nullptr)) + ", or `!`";
  }
  template <class T>
  std::string type_of(const std::vector<T>* /*type*/) {
    return "list: " + type_of(static_cast<const T*>(nullptr));
  }
  template <class T, size_t N>
  std::string type_of(const std::array<T, N>* /*type*/) {
    return std::to_string(N) + " times " + type_of(static_cast<const T*>(nullptr));
  }
  template <Listed T>
  std::string type_of(const T* /*type*/) {
    const std::string name = name_of_type<T>();
    if (known_.insert(name).second) {
      parts_.push_back({.name = name, .add = [](Page& page) { page.add_table<T>(); }});
    }
    return linked(name);
  }

  std::string text_;
  std::set<std::string> known_;
  std::vector<Part> parts_;
};

std::string made_part() {
  Page page;
  page.add_header();
  page.add_records();
  page.add_parts();
  return page.text();
}

TEST(RecordingFormatPage, ListsTheFieldsAsTheyAre) {
  std::string text = read_text(kPage);
  const size_t mark = text.find(kMark);
  ASSERT_NE(mark, std::string::npos);
  const std::string whole = text.substr(0, mark) + std::string(kMark) + "\n" + made_part();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread changes the environment.
  if (std::getenv("DLPROBE_WRITE_DOCS") != nullptr) {
    std::ofstream(std::string(kPage)) << whole;
    text = whole;
  }
  EXPECT_TRUE(text == whole)
      << kPage << " is not what the field lists say: run record_test with DLPROBE_WRITE_DOCS=1";
}

}  // namespace
}  // namespace dlprobe
