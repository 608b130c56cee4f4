#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lib/base/own_words.h"

namespace dlprobe {

/// Numbers that follow one another, the last one included.
struct NumberRange {
  int64_t first = 0;
  int64_t last = 0;
  bool operator==(const NumberRange&) const = default;
};

/// The ranges of numbers in any order; each counts once.
std::vector<NumberRange> ranges_of(std::vector<int64_t> numbers);

/// The numbers from 0 up to, not including, `end` that are in none of the ranges, which are in
/// order.
std::vector<NumberRange> gaps_between(std::span<const NumberRange> ranges, int64_t end);

/// How many numbers they hold.
uint64_t count_in(std::span<const NumberRange> ranges);

/// "0, 2-7"; of more than `most` ranges the first ones: "0, 2, 4 and 9 more".
OwnWords ranges_text(std::span<const NumberRange> ranges,
                     size_t most = std::numeric_limits<size_t>::max());

/// The same of numbers in any order.
OwnWords ranges_text(std::vector<int64_t> numbers,
                     size_t most = std::numeric_limits<size_t>::max());

}  // namespace dlprobe
