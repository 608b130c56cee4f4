#include "probes/fd/growth.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lib/base/units.h"

namespace dlprobe::probes::fd {
namespace {

constexpr size_t kParts = 6;
constexpr uint64_t kNothing = std::numeric_limits<uint64_t>::max();
using Envelope = std::array<uint64_t, kParts>;

// Whether most of the rise came between two counts that follow each other.
bool is_jump(std::span<const CountAt> counts) {
  const uint64_t rise = counts.back().count - std::min(counts.back().count, counts.front().count);
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i].count > counts[i - 1].count + rise / 2) return true;
  }
  return false;
}

// The smallest count of each part; nothing where a part has none.
std::optional<Envelope> lower_envelope(std::span<const CountAt> counts, BootNs begin, BootNs end) {
  Envelope smallest;
  smallest.fill(kNothing);
  const double width = static_cast<double>(end - begin) / kParts;
  for (const CountAt& point : counts) {
    if (point.at < begin || point.at > end) continue;
    const auto part = static_cast<size_t>(static_cast<double>(point.at - begin) / width);
    uint64_t& value = smallest.at(std::min(part, kParts - 1));
    value = std::min(value, point.count);
  }
  if (std::ranges::find(smallest, kNothing) != smallest.end()) return std::nullopt;
  return smallest;
}

bool is_steady(const Envelope& envelope) {
  const auto rise = [&](size_t from, size_t to) {
    return static_cast<double>(envelope.at(to)) - static_cast<double>(envelope.at(from));
  };
  const double all = rise(0, kParts - 1);
  if (all <= 0) return false;
  int steps_up = 0;
  for (size_t i = 1; i < kParts; ++i) {
    if (rise(i - 1, i) > all / 2) return false;
    if (rise(i - 1, i) > 0) ++steps_up;
  }
  return steps_up >= 4 && rise(kParts / 2, kParts - 1) >= rise(0, kParts / 2 - 1) / 2;
}

// Theil and Sen on up to so many points.
double median_slope(std::span<const CountAt> counts) {
  constexpr size_t kMostPoints = 60;
  const size_t step = std::max<size_t>(1, counts.size() / kMostPoints);
  std::vector<double> slopes;
  for (size_t i = 0; i < counts.size(); i += step) {
    for (size_t j = i + step; j < counts.size(); j += step) {
      const auto time = static_cast<double>(counts[j].at - counts[i].at) / kSecond;
      if (time <= 0) continue;
      slopes.push_back(
          (static_cast<double>(counts[j].count) - static_cast<double>(counts[i].count)) / time);
    }
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::ranges::nth_element(slopes, middle);
  return *middle;
}

}  // namespace

std::optional<CountGrowth> steady_growth(std::span<const CountAt> counts, BootNs end,
                                         BootNs window) {
  const BootNs begin = end - window;
  const auto first = std::ranges::lower_bound(counts, begin, {}, &CountAt::at);
  const auto last = std::ranges::upper_bound(counts, end, {}, &CountAt::at);
  if (last - first < static_cast<std::ptrdiff_t>(kParts)) return std::nullopt;
  const std::span<const CountAt> inside(first, last);
  const auto envelope = lower_envelope(inside, inside.front().at, inside.back().at);
  if (!envelope || !is_steady(*envelope) || is_jump(inside)) return std::nullopt;
  return CountGrowth{.from = inside.front().at,
                     .to = inside.back().at,
                     .first = inside.front().count,
                     .last = inside.back().count,
                     .per_second = median_slope(inside)};
}

std::optional<CountGrowth> growth_until(std::span<const CountAt> counts, BootNs end,
                                        BootNs shortest, uint64_t least) {
  if (counts.empty()) return std::nullopt;
  for (BootNs window = end - counts.front().at; window >= shortest; window /= 2) {
    const auto growth = steady_growth(counts, end, window);
    if (growth && growth->last >= growth->first + least && growth->per_second > 0) return growth;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::fd
