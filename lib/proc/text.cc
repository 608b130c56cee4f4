#include "lib/proc/text.h"

#include "lib/base/parse.h"
#include "lib/base/units.h"

namespace dlprobe {

std::unexpected<Error> malformed(std::string_view file, std::string_view what,
                                 std::string_view text) {
  constexpr size_t kShown = 80;
  std::string context = "parse ";
  context += file;
  context += ": ";
  context += what;
  context += " in \"";
  context += text.substr(0, kShown);
  context += text.size() > kShown ? "...\"" : "\"";
  return failure(ErrorCode::kMalformed, std::move(context));
}

std::optional<std::string_view> find_value(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;  // the kernel ends every line
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      return trim(line.substr(key.size() + 1));
    }
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::optional<uint64_t> find_kib(std::string_view text, std::string_view key) {
  constexpr std::string_view kUnit = " kB";
  const auto value = find_value(text, key);
  if (!value || !value->ends_with(kUnit)) return std::nullopt;
  const auto kib = parse_int<uint64_t>(value->substr(0, value->size() - kUnit.size()));
  if (!kib || *kib > UINT64_MAX / kKiB) return std::nullopt;
  return *kib * kKiB;
}

Expected<uint64_t> parse_flat_key(std::string_view text, std::string_view key,
                                  std::string_view file) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      const auto value = parse_int<uint64_t>(line.substr(key.size() + 1));
      if (!value) return malformed(file, "not a number", line);
      return *value;
    }
    text.remove_prefix(end + 1);
  }
  return malformed(file, std::string("no line ") + std::string(key), text);
}

}  // namespace dlprobe
