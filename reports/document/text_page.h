#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/document/document.h"
#include "reports/document/render.h"

namespace dlprobe {

/// Columns that `text` takes: characters, not bytes.
size_t columns_of(std::string_view text);

/// Text for a terminal of a given width, line by line.
class TextPage {
 public:
  explicit TextPage(const TextOptions& options) : options_(options) {}

  /// Appends `text`, broken between words: its first line after `lead`, the others under it.
  void paragraph(std::string_view lead, std::string_view text,
                 document::Mark lead_mark = document::Mark::kPlain);
  /// Appends `code` as it is, however long: what is cut cannot be pasted.
  void code(std::string_view lead, std::string_view code);
  void heading(std::string_view text);
  void blank_line() { out_ += '\n'; }

  /// A table with its first row as heads. Gaps are narrowed, then columns dropped from the right
  /// (but for the first ones) until it fits.
  void table(std::vector<std::vector<std::string>> rows, size_t first_columns_to_keep);

  const TextOptions& options() const { return options_; }
  bool is_empty() const { return out_.empty(); }
  std::string take() && { return std::move(out_); }

 private:
  std::string marked(std::string_view text, document::Mark mark) const;

  TextOptions options_;
  std::string out_;
};

}  // namespace dlprobe
