#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fields.h"

namespace dlprobe {

/// What dlprobe can set from outside for a command that it starts. In the order of what it costs
/// the user to change it for good, the least first.
enum class SettingKind {
  kEnvironment,      ///< a variable
  kOpenFiles,        ///< the soft limit of open files
  kSharingStrategy,  ///< of torch.multiprocessing
  kPrefetchFactor,   ///< of every DataLoader with workers
  kNumWorkers,       ///< of every DataLoader
  kStartMethod,      ///< the default, where the script names none
  kShmSize,          ///< of a /dev/shm of the command's own
};
template <>
struct Names<SettingKind> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"environment", "open-files", "sharing-strategy", "prefetch-factor", "num-workers",
       "start-method", "shm-size"});
};

/// One such setting: what a person would do to carry out a remedy, for a program.
struct Setting {
  SettingKind kind = SettingKind::kEnvironment;
  std::string name;
  std::string value;
  bool operator==(const Setting&) const = default;

  /// The value of a kind that is a number; nothing if it is none.
  std::optional<uint64_t> number() const;
};
constexpr void list_fields(auto&& field, Of<Setting> /*of*/) {
  field("kind", &Setting::kind, "what is set");
  field("name", &Setting::name, "of environment: the variable");
  field("value", &Setting::value,
        R"("spawn", "file_system", "1"; numbers in digits, sizes in bytes)");
}

/// "start method spawn", "OMP_NUM_THREADS=1", "a /dev/shm of 256 MiB", "num_workers=2 and
/// prefetch_factor=1": for the middle of a sentence.
std::string describe(const std::vector<Setting>& settings);

/// A command that is run once more to see whether a remedy helps.
struct Attempt {
  std::vector<Setting> settings;
  int32_t of_run = 0;
  bool operator==(const Attempt&) const = default;
};
constexpr void list_fields(auto&& field, Of<Attempt> /*of*/) {
  field("settings", &Attempt::settings, "empty: as it was, to see whether the failure comes again");
  field("of_run", &Attempt::of_run, "which one it repeats: an index into Recording::runs");
}

}  // namespace dlprobe
