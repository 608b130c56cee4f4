#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.h"

namespace dlprobe {

/// The text of `object[key]`, escaped for the terminal; "" where there is none. A report that was
/// read from a file may hold anything: these never throw.
std::string text_at(const Json& object, const char* key);
/// The number, or nothing.
std::optional<double> number_at(const Json& object, const char* key);
/// The number without its fraction; 0 where there is none, or none that is exact.
int64_t integer_at(const Json& object, const char* key);
/// The array, or the object; an empty one where there is none.
const Json& items_at(const Json& object, const char* key);
const Json& object_at(const Json& object, const char* key);

/// `object[key]` bytes as "64.0 MiB"; "-" where there is no number: never a made-up 0.
std::string bytes_at(const Json& object, const char* key);

/// Any value for a person, by its unit: bytes, seconds, counts, escaped text.
std::string value_with_unit(const Json& value, std::string_view unit);

/// Of an entry of `suppressed[]`: "known, ticket 12 (until 2027-01-31, dlprobe.toml:9)".
std::string suppression_text(const Json& finding);

/// Columns that `text` takes: characters, not bytes.
size_t columns_of(std::string_view text);

enum class Style { kPlain, kBold, kRed, kYellow, kGreen, kDim };

/// Text for a terminal of a given width, line by line.
class TextPage {
 public:
  explicit TextPage(const TextOptions& options) : options_(options) {}

  /// Appends `text`, broken between words: its first line after `lead`, the others under it.
  void paragraph(std::string_view lead, std::string_view text, Style lead_style = Style::kPlain);
  void heading(std::string_view text);
  void blank_line() { out_ += '\n'; }

  /// A table with its first row as heads. Columns of which every cell is "-" are left out; then
  /// gaps are narrowed, then columns dropped from the right (but for the first ones) until it fits.
  void table(std::vector<std::vector<std::string>> rows, size_t first_columns_to_keep);

  const TextOptions& options() const { return options_; }
  std::string take() && { return std::move(out_); }

 private:
  std::string styled(std::string_view text, Style style) const;

  TextOptions options_;
  std::string out_;
};

}  // namespace dlprobe
