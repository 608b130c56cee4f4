#include "reports/model/sections.h"

#include <fmt/format.h>

#include <ctime>

#include "lib/base/units.h"

namespace dlprobe {

std::optional<std::string> TimeOfDay::utc(BootNs at) const {
  // In milliseconds, because sums of two times in nanoseconds may overflow.
  const int64_t ms =
      header_.realtime_ns / kMillisecond + (at / kMillisecond - header_.boottime_ns / kMillisecond);
  const int64_t ms_of_second = (ms % 1000 + 1000) % 1000;
  const time_t seconds = (ms - ms_of_second) / 1000;
  tm parts = {};
  if (gmtime_r(&seconds, &parts) == nullptr || parts.tm_year > 8099) return std::nullopt;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms_of_second);
}

report::Moment TimeOfDay::moment(BootNs at) const {
  report::Moment moment{.boottime_ns = at};
  if (auto text = utc(at)) moment.at.emplace(std::move(*text));
  return moment;
}

std::optional<report::Moment> TimeOfDay::moment(const std::optional<BootNs>& at) const {
  return at ? std::optional(moment(*at)) : std::nullopt;
}

std::string Sentences::text_of(const Message& message) {
  for (const MessagePart& part : message.parts())
    if (part.kind != PartKind::kOwn) add(part.kind, part.text);
  return message.plain();
}

report::Gap Sentences::texts_of(const Gap& gap) {
  return {.what = text_of(gap.what),
          .why = text_of(gap.why),
          .effect = text_of(gap.effect),
          .remedy = text_of(gap.remedy)};
}

void Sentences::add(PartKind kind, const std::string& text) {
  if (known_.emplace(kind, text).second) names_.push_back({.kind = kind, .text = text});
}

double seconds_between(BootNs from, BootNs to) {
  return static_cast<double>(to - from) / 1e9;
}

std::vector<report::Limitation> limitations_section(const ReportSource& source) {
  std::vector<report::Limitation> result;
  const auto add = [&](const Gap& gap, bool is_required) {
    const auto is_same = [&](const report::Limitation& other) {
      return other.gap.what == gap.what.plain() && other.gap.why == gap.why.plain();
    };
    if (std::ranges::any_of(result, is_same)) return;
    result.push_back({.gap = source.sentences.texts_of(gap), .required = is_required});
  };
  for (const Gap& gap : source.verdict.gaps)
    add(gap, true);
  for (const Gap& gap : source.verdict.limits)
    add(gap, false);
  for (const Run& run : source.recording.runs) {
    for (const Gap& gap : run.gaps)
      add(gap, false);
  }
  if (source.recording.truncated) {
    add({.what = "the end of the examination",
         .why = "the recording has no end: dlprobe was killed, or the file was cut",
         .effect = "dlprobe cannot tell what happened after its last record"},
        false);
  }
  if (source.recording.thinned_records > 0) {
    add({.what = counted(source.recording.thinned_records, "older sample"),
         .why = "a long watch keeps all samples of the last 2 minutes, and fewer of earlier times: "
                "one per second, per 10 seconds, then per 2 minutes",
         .effect = "short peaks of memory and descriptors long ago may be missing"},
        false);
  }
  return result;
}

}  // namespace dlprobe
