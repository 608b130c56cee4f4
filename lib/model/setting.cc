#include "lib/model/setting.h"

#include "lib/base/parse.h"
#include "lib/base/units.h"

namespace dlprobe {
namespace {

std::string describe_one(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kEnvironment:
      return setting.name + "=" + setting.value;
    case SettingKind::kOpenFiles:
      return "a soft limit of " + setting.value + " open files";
    case SettingKind::kSharingStrategy:
      return "sharing strategy " + setting.value;
    case SettingKind::kPrefetchFactor:
      return "prefetch_factor=" + setting.value;
    case SettingKind::kNumWorkers:
      return "num_workers=" + setting.value;
    case SettingKind::kStartMethod:
      return "start method " + setting.value;
    case SettingKind::kShmSize:
      return "a /dev/shm of " + format_bytes(setting.number().value_or(0));
  }
  return setting.value;
}

}  // namespace

std::optional<uint64_t> Setting::number() const {
  return parse_int<uint64_t>(value);
}

std::string describe(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings)
    text += (text.empty() ? "" : " and ") + describe_one(setting);
  return text;
}

}  // namespace dlprobe
