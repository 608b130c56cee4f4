#include "probes/setting_effect.h"

#include <fmt/format.h>

#include "lib/model/setting.h"
#include "probes/spawn_facts.h"

namespace dlprobe {
namespace {

std::string why_start_method_not_set(const Run& run, const std::string& method) {
  for (const StartEvent* event : events_of(run, StartEventKind::kChosen)) {
    if (event->method == method) continue;
    const std::string place = short_place(*event);
    return fmt::format("{} asks for {} itself, and had it", place.empty() ? "the script" : place,
                       event->method);
  }
  bool any = false;
  for (const StartEvent& event : run.start_events) {
    const bool is_start =
        event.kind == StartEventKind::kStarted || event.kind == StartEventKind::kRefused;
    if (!is_start || event.method.empty()) continue;
    if (event.method != method)
      return fmt::format("processes were started under {} all the same", event.method);
    any = true;
  }
  return any ? "" : fmt::format("the command started no process under {}", method);
}

std::string value_in_loader(const StartEvent& made, SettingKind kind) {
  if (kind == SettingKind::kSharingStrategy) return made.type;
  const auto& number = kind == SettingKind::kNumWorkers ? made.workers : made.prefetch_factor;
  return number ? std::to_string(*number) : "";
}

std::string why_loader_not_set(const Run& run, const Setting& setting) {
  bool any = false;
  for (const StartEvent* made : events_of(run, StartEventKind::kLoaderMade)) {
    const bool has_workers = made->workers.value_or(0) > 0;
    if (!has_workers && setting.kind != SettingKind::kNumWorkers) continue;
    const std::string value = value_in_loader(*made, setting.kind);
    if (value != setting.value)
      return fmt::format("a DataLoader had {} all the same",
                         value.empty()
                             ? fmt::format("a {} that is not known", to_string(setting.kind))
                             : describe({{setting.kind, "", value}}));
    any = true;
  }
  return any ? ""
             : fmt::format("the command made no DataLoader that could take {}",
                           describe({setting}));
}

std::string why_not_in_effect(const Run& run, const Setting& setting) {
  switch (setting.kind) {
    // The kernel sees to these.
    case SettingKind::kEnvironment:
    case SettingKind::kOpenFiles:
    case SettingKind::kShmSize:
      return "";
    case SettingKind::kStartMethod:
    case SettingKind::kSharingStrategy:
    case SettingKind::kNumWorkers:
    case SettingKind::kPrefetchFactor:
      break;
  }
  if (run.start_events.empty())
    return "no Python interpreter of the command (3.6 or later) took dlprobe's word";
  return setting.kind == SettingKind::kStartMethod ? why_start_method_not_set(run, setting.value)
                                                   : why_loader_not_set(run, setting);
}

}  // namespace

std::string why_not_set(const Run& attempt) {
  if (!attempt.begin.attempt) return "";
  for (const Setting& setting : attempt.begin.attempt->settings) {
    if (auto why = why_not_in_effect(attempt, setting); !why.empty()) return why;
  }
  return "";
}

}  // namespace dlprobe
