#include "probes/confirm/setting_effect.h"

#include <algorithm>

#include "probes/facts/starts.h"

namespace dlprobe::probes::confirm {
namespace {

Message method_that_won(const Run& run, const std::string& method) {
  for (const StartEvent* event : events_of(run, StartEventKind::kChosen)) {
    if (event->method == method) continue;
    const Message place = short_place(*event);
    return say("{} itself asks for {}", place.empty() ? "the script" : place,
               method_name(event->method));
  }
  for (const StartEvent& event : run.start_events) {
    const bool is_start =
        event.kind == StartEventKind::kStarted || event.kind == StartEventKind::kRefused;
    if (is_start && !event.method.empty() && event.method != method)
      return say("processes still started under {}", method_name(event.method));
  }
  return "";
}

std::string value_in_loader(const StartEvent& made, SettingKind kind) {
  if (kind == SettingKind::kSharingStrategy) return made.type;
  const auto& number = kind == SettingKind::kNumWorkers ? made.workers : made.prefetch_factor;
  return number ? own(*number) : "";
}

// A loader without workers hands nothing over, and fetches nothing ahead.
bool takes(const StartEvent& made, const Setting& setting) {
  return made.workers.value_or(0) > 0 || setting.kind == SettingKind::kNumWorkers;
}

Message loader_that_won(const Run& run, const Setting& setting) {
  for (const StartEvent* made : events_of(run, StartEventKind::kLoaderMade)) {
    const std::string value = value_in_loader(*made, setting.kind);
    if (!takes(*made, setting) || value == setting.value) continue;
    return say("a DataLoader still had {}",
               value.empty() ? "a " + own(to_string(setting.kind)) + " that is not known"
                             : as_name(describe({{setting.kind, "", value}})));
  }
  return "";
}

// The kernel sees to the others.
bool is_pythons(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kEnvironment:
    case SettingKind::kOpenFiles:
    case SettingKind::kShmSize:
      return false;
    case SettingKind::kStartMethod:
    case SettingKind::kSharingStrategy:
    case SettingKind::kNumWorkers:
    case SettingKind::kPrefetchFactor:
      break;
  }
  return true;
}

bool has_taken(const Run& run, const Setting& setting) {
  return std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    if (setting.kind == SettingKind::kStartMethod) return event.method == setting.value;
    return event.kind == StartEventKind::kLoaderMade && takes(event, setting);
  });
}

Message why_not_in_effect(const Run& run, const Setting& setting) {
  if (!is_pythons(setting)) return "";
  if (run.start_events.empty())
    return "no Python interpreter of the command (3.6 or later) took dlprobe's settings";
  if (auto won = what_won_over(run, setting); !won.empty()) return won;
  if (has_taken(run, setting)) return "";
  return setting.kind == SettingKind::kStartMethod
             ? say("the command started no process under {}", own(setting.value))
             : say("the command made no DataLoader that accepts {}", own(describe({setting})));
}

}  // namespace

Message what_won_over(const Run& run, const Setting& setting) {
  if (!is_pythons(setting)) return "";
  return setting.kind == SettingKind::kStartMethod ? method_that_won(run, setting.value)
                                                   : loader_that_won(run, setting);
}

Message why_not_set(const Run& attempt) {
  if (!attempt.begin.attempt) return "";
  for (const Setting& setting : attempt.begin.attempt->settings) {
    if (auto why = why_not_in_effect(attempt, setting); !why.empty()) return why;
  }
  return "";
}

}  // namespace dlprobe::probes::confirm
