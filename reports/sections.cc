#include "reports/sections.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>

#include "lib/base/units.h"
#include "lib/base/utf8.h"

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

void TimeOfDay::put(Json& object, const std::string& name, BootNs at) const {
  if (const auto text = utc(at)) object[name + "_at"] = *text;
  object[name + "_boottime_ns"] = at;
}

Json json_text(std::string_view text) {
  return to_valid_utf8(text);
}

Json json_texts(std::span<const std::string> texts) {
  Json result = Json::array();
  for (const std::string& text : texts)
    result.push_back(json_text(text));
  return result;
}

void put_number(Json& object, const char* key, double value) {
  if (std::isfinite(value)) object[key] = value;
}

double seconds_between(BootNs from, BootNs to) {
  return static_cast<double>(to - from) / 1e9;
}

RunSpan span_of(const Run& run) {
  RunSpan span = {.begin = run.begin.at, .end = run.begin.at};
  const auto extend = [&](BootNs at) { span.end = std::max(span.end, at); };
  if (!run.samples.empty()) extend(run.samples.back().at);
  if (!run.shm_use.empty()) extend(run.shm_use.back().at);
  if (!run.events.empty()) extend(run.events.back().at);
  if (!run.exits.empty()) extend(run.exits.back().at);
  if (run.end) extend(run.end->at);
  return span;
}

std::string describe_exit(const Observed<int32_t>& wait_status) {
  if (!wait_status) return "ended, its status is not known: " + to_string(wait_status.error());
  const int status = *wait_status;
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return fmt::format("killed by signal {} ({}{})", WTERMSIG(status), name != nullptr ? "SIG" : "",
                       name != nullptr ? name : "unknown");
  }
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  return fmt::format("ended with wait status {:#x}", status);
}

Json limitations_section(const ReportSource& source) {
  Json result = Json::array();
  const auto add = [&](const Gap& gap, bool is_required) {
    Json entry = {{"what", json_text(gap.what)},
                  {"why", json_text(gap.why)},
                  {"effect", json_text(gap.effect)},
                  {"remedy", json_text(gap.remedy)},
                  {"required", is_required}};
    const auto is_same = [&](const Json& other) {
      return other["what"] == entry["what"] && other["why"] == entry["why"];
    };
    if (std::ranges::none_of(result, is_same)) result.push_back(std::move(entry));
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
         .why =
             "the recording stops without its last record: dlprobe was killed, or the file was cut",
         .effect = "what happened after its last record is not known",
         .remedy = ""},
        false);
  }
  if (source.recording.thinned_records > 0) {
    add({.what = counted(source.recording.thinned_records, "older sample"),
         .why = "a long watch keeps the last 2 minutes whole, then one sample per second, per 10 "
                "seconds and per 2 minutes, the one with the highest use of shared memory each",
         .effect = "short peaks of memory and descriptors long ago may be missing",
         .remedy = ""},
        false);
  }
  return result;
}

}  // namespace dlprobe
