#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "probes/fd/facts.h"

namespace dlprobe::probes::fd {

/// A steady rise of a count.
struct CountGrowth {
  BootNs from = 0;
  BootNs to = 0;
  uint64_t first = 0;     ///< at `from`
  uint64_t last = 0;      ///< at `to`
  double per_second = 0;  ///< median of the slopes between any two moments (Theil and Sen)
};

/// The steady rise in the `window` before `end`; nothing where the count stands, jumps, comes and
/// goes, or slows down to a plateau.
///
/// The span is cut into six parts; of each its smallest count stands for it, so that what is opened
/// and closed again does not matter. At least four of the five steps go up, none makes more than
/// half of the rise (nor does any single count), and the second half rises at least half as much as
/// the first.
std::optional<CountGrowth> steady_growth(std::span<const CountAt> counts, BootNs end,
                                         BootNs window);

/// The steady rise that led to `end`, over the longest of the spans before it that show one: all,
/// half, a quarter ... down to `shortest`. Nothing if it rose by less than `least`.
std::optional<CountGrowth> growth_until(std::span<const CountAt> counts, BootNs end,
                                        BootNs shortest, uint64_t least);

}  // namespace dlprobe::probes::fd
