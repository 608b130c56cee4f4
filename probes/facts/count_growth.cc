#include "probes/facts/count_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ranges>

#include "lib/base/units.h"
#include "probes/facts/facts.h"

namespace dlprobe {

OwnWords count_rate_text(double per_second) {
  if (per_second >= 1) return own(fmt::format("{:.1f} per second", per_second));
  if (per_second * 60 >= 1) return own(fmt::format("{:.1f} per minute", per_second * 60));
  return own(fmt::format("{:.1f} per hour", per_second * 3600));
}

OwnWords time_ahead_text(double seconds) {
  constexpr double kLongest = 1e9;
  return format_duration(std::chrono::seconds(static_cast<int64_t>(std::min(seconds, kLongest))));
}

OwnWords what_brief_growth_leaves_open(const Growth& growth, const OwnWords& healthy) {
  if (growth.is_long_watched) return "";
  const OwnWords time = format_duration(std::chrono::nanoseconds(growth.to - growth.from));
  return (growth.is_by_age ? " (since its start " + time + " ago, as what it has shows"
                           : " (seen for " + time) +
         "; " + healthy + " looks the same until it is full)";
}

void leave_out_end(const Run& run, std::vector<SeriesPoint>& series) {
  constexpr BootNs kTeardown = 5 * kSecond;
  constexpr double kNearly = 0.95;
  if (!has_subject_ended(run) || series.empty()) return;
  const double most = std::ranges::max_element(series, {}, &SeriesPoint::value)->value;
  const BootNs end = series.back().at;
  const auto newest_first = std::views::reverse(series);
  const auto last = std::ranges::find_if(
      newest_first, [&](const SeriesPoint& point) { return point.value >= kNearly * most; });
  if (end - last->at <= kTeardown) series.erase(last.base(), series.end());
}

void tell_count_growth(Finding& finding, const Growth& growth, const Message& source,
                       const std::optional<CountLimit>& limit, const OwnWords& healthy) {
  finding.severity = Severity::kWarning;
  finding.confidence = growth.is_brief ? Confidence::kPossible : Confidence::kLikely;
  finding.first_seen = growth.from;
  finding.last_seen = growth.to;
  finding.message += ", " + count_rate_text(growth.per_second) + " more";
  finding.prove(number_fact("growth_per_second", growth.per_second, "1/s", source));
  finding.prove(time_fact("seen_to_grow_for", growth.to - growth.from, source));
  if (const auto seconds =
          limit ? time_to_limit(growth, static_cast<double>(limit->left)) : std::nullopt) {
    const OwnWords time = time_ahead_text(*seconds);
    finding.message += "; at this rate " + limit->name +
                       (limit->has_ended ? " would have been reached in " : " is reached in ") +
                       time;
    finding.prove(number_fact("time_to_limit", *seconds, "s", source));
  }
  finding.message += what_brief_growth_leaves_open(growth, healthy);
}

}  // namespace dlprobe
