#include "lib/base/units.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"

namespace dlprobe {
namespace {

OwnWords with_decimals(double value, const char* unit) {
  std::array<char, 48> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.1f %s", value, unit);
  return own({buffer.data(), static_cast<size_t>(length)});
}

// Of the nouns that dlprobe counts; "memory", "child" and their like are not among them.
OwnWords plural(std::string_view noun) {
  constexpr std::array<std::string_view, 5> kHissing = {"s", "x", "z", "ch", "sh"};
  const bool hisses =
      std::ranges::any_of(kHissing, [&](std::string_view end) { return noun.ends_with(end); });
  return own(noun) + (hisses ? "es" : "s");
}

std::optional<int> binary_exponent(std::string_view unit) {
  const std::string name = lower_case(unit);
  if (name.empty() || name == "b") return 0;
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t index = kPrefixes.find(name.front());
  if (index == std::string_view::npos) return std::nullopt;
  const std::string rest = name.substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  return static_cast<int>(index + 1) * 10;
}

}  // namespace

OwnWords format_bytes(uint64_t bytes) {
  if (bytes < 1024) return own(bytes) + " B";
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return with_decimals(value, kUnits.at(unit));
}

OwnWords format_duration(std::chrono::nanoseconds duration) {
  using std::chrono::duration_cast;
  const auto ms = duration_cast<std::chrono::milliseconds>(duration).count();
  if (ms < 1000) return own(ms) + " ms";
  if (ms < 60'000) return with_decimals(static_cast<double>(ms) / 1000, "s");
  const auto seconds = ms / 1000;
  if (seconds < 3600) {
    return own(seconds / 60) + " min " + own(seconds % 60) + " s";
  }
  return own(seconds / 3600) + " h " + own(seconds % 3600 / 60) + " min";
}

OwnWords counted(uint64_t count, std::string_view noun) {
  return own(count) + " " + (count == 1 ? own(noun) : plural(noun));
}

OwnWords all_of(uint64_t count, std::string_view noun) {
  if (count == 0) return "no " + own(noun);
  if (count == 1) return "the only " + own(noun);
  return (count == 2 ? "both " : "all " + own(count) + " ") + plural(noun);
}

Expected<uint64_t> parse_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_int<uint64_t>(text.substr(0, digits));
  const auto exponent = binary_exponent(text.substr(digits));
  if (!number || !exponent) {
    return failure(ErrorCode::kInvalid, "'" + std::string(text) +
                                            "' is not a size: give a whole number with an optional "
                                            "unit k, m, g or t, for example 64m");
  }
  if (*number > (std::numeric_limits<uint64_t>::max() >> *exponent)) {
    return failure(ErrorCode::kInvalid, "'" + std::string(text) + "' is too large a size");
  }
  return *number << *exponent;
}

Expected<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = parse_double(text.substr(0, digits));
  for (const auto& [unit, scale] : kUnits) {
    if (!number || text.substr(digits) != unit) continue;
    const double nanoseconds = *number * scale;
    if (nanoseconds > 9e18) break;
    return std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds));
  }
  return failure(ErrorCode::kInvalid, "'" + std::string(text) +
                                          "' is not a duration: give a number and a unit, for "
                                          "example 500ms, 30s, 10m or 2h");
}

uint64_t round_up_to_pages(uint64_t bytes, uint64_t page_size) {
  if (page_size == 0) return bytes;
  return (bytes + page_size - 1) / page_size * page_size;
}

}  // namespace dlprobe
