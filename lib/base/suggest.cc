#include "lib/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace dlprobe {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// The distance of Damerau and Levenshtein (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> previous(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + change});
      const bool is_swap =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (is_swap) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

/// "" where none is near.
std::string_view closest(std::string_view typed, std::span<const std::string_view> candidates) {
  constexpr size_t kLongest = 64;
  if (typed.empty() || typed.size() > kLongest) return {};
  std::string_view best;
  size_t least = std::max<size_t>(typed.size() / 3, 1) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const size_t changes = distance(typed, candidate);
    if (changes < least) {
      least = changes;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> candidates) {
  const std::string_view near = closest(typed, candidates);
  return near.empty() ? "" : " (did you mean '" + std::string(near) + "'?)";
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return did_you_mean(typed, views);
}

}  // namespace dlprobe
