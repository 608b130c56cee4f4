#include "lib/base/number_ranges.h"

#include <algorithm>
#include <utility>

namespace dlprobe {

std::vector<NumberRange> ranges_of(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  std::vector<NumberRange> ranges;
  for (const int64_t number : numbers) {
    if (!ranges.empty() && number - 1 <= ranges.back().last) {
      ranges.back().last = number;
    } else {
      ranges.push_back({.first = number, .last = number});
    }
  }
  return ranges;
}

std::vector<NumberRange> gaps_between(std::span<const NumberRange> ranges, int64_t end) {
  std::vector<NumberRange> gaps;
  int64_t next = 0;
  for (const NumberRange& range : ranges) {
    if (next < std::min(range.first, end))
      gaps.push_back({.first = next, .last = std::min(range.first, end) - 1});
    next = std::max(next, range.last + 1);
  }
  if (next < end) gaps.push_back({.first = next, .last = end - 1});
  return gaps;
}

uint64_t count_in(std::span<const NumberRange> ranges) {
  uint64_t count = 0;
  for (const NumberRange& range : ranges)
    count += static_cast<uint64_t>(range.last - range.first) + 1;
  return count;
}

OwnWords ranges_text(std::span<const NumberRange> ranges, size_t most) {
  OwnWords text;
  for (const NumberRange& range : ranges.first(std::min(most, ranges.size()))) {
    if (!text.empty()) text += ", ";
    text += own(range.first);
    // A range of two is no shorter than its ends.
    if (range.last > range.first)
      text += (range.last == range.first + 1 ? ", " : "-") + own(range.last);
  }
  if (ranges.size() > most) text += " and " + own(count_in(ranges.subspan(most))) + " more";
  return text;
}

OwnWords ranges_text(std::vector<int64_t> numbers, size_t most) {
  return ranges_text(ranges_of(std::move(numbers)), most);
}

}  // namespace dlprobe
