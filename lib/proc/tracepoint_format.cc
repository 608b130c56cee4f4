#include "lib/proc/tracepoint_format.h"

#include <algorithm>
#include <optional>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kTracepointFormat = "tracepoint format";
constexpr size_t kLargestRecord = 65536;

/// The number of "offset:8" among "field:int sig", "offset:8", "size:4", "signed:1".
std::optional<size_t> number_of(const std::vector<std::string_view>& parts, std::string_view key) {
  for (const std::string_view part : parts) {
    const std::string_view text = trim(part);
    if (text.starts_with(key)) return parse_int<size_t>(text.substr(key.size()));
  }
  return std::nullopt;
}

/// "char comm[16]" is "comm".
std::string_view name_of(std::string_view declaration) {
  declaration = declaration.substr(0, declaration.find('['));
  const size_t blank = declaration.rfind(' ');
  return blank == std::string_view::npos ? declaration : declaration.substr(blank + 1);
}

// Example: "\tfield:int sig;\toffset:8;\tsize:4;\tsigned:1;"
std::optional<TracepointField> parse_field(std::string_view line) {
  const auto parts = split(line, ';');
  const auto offset = number_of(parts, "offset:");
  const auto size = number_of(parts, "size:");
  if (!offset || !size || *offset > kLargestRecord || *size > kLargestRecord) return std::nullopt;
  return TracepointField{
      .name = std::string(name_of(parts.front())), .offset = *offset, .size = *size};
}

}  // namespace

const TracepointField* TracepointFormat::find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &TracepointField::name);
  return found == fields.end() ? nullptr : &*found;
}

Expected<TracepointFormat> parse_tracepoint_format(std::string_view text) {
  TracepointFormat format;
  std::string_view wrong;
  for_each_line(text, [&](std::string_view line) {
    line = trim(line);
    if (line.starts_with("ID: ")) {
      format.id = parse_int<uint64_t>(line.substr(4)).value_or(0);
    } else if (line.starts_with("field:")) {
      if (auto field = parse_field(line)) {
        format.fields.push_back(std::move(*field));
      } else {
        wrong = line;
      }
    }
  });
  if (!wrong.empty()) return malformed(kTracepointFormat, "a field without its place", wrong);
  if (format.id == 0 || format.fields.empty())
    return malformed(kTracepointFormat, "no id or no fields", text);
  return format;
}

}  // namespace dlprobe
