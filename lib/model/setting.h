#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
std::string_view to_string(SettingKind kind);  ///< "environment", "open-files", ...
SettingKind setting_kind_from_string(std::string_view name);

/// One such setting: what a person would do to carry out a remedy, for a program.
struct Setting {
  SettingKind kind = SettingKind::kEnvironment;
  std::string name;   ///< of kEnvironment: the variable
  std::string value;  ///< "spawn", "file_system", "1"; numbers in digits, sizes in bytes
  bool operator==(const Setting&) const = default;

  /// The value of a kind that is a number; nothing if it is none.
  std::optional<uint64_t> number() const;
};

/// "start method spawn", "OMP_NUM_THREADS=1", "a /dev/shm of 256 MiB", "num_workers=2 and
/// prefetch_factor=1": for the middle of a sentence.
std::string describe(const std::vector<Setting>& settings);

/// A command that is run once more to see whether a remedy helps.
struct Attempt {
  std::vector<Setting> settings;  ///< empty: as it was, to see whether the failure comes again
  int32_t of_run = 0;             ///< which one it repeats: an index into Recording::runs
  bool operator==(const Attempt&) const = default;
};

}  // namespace dlprobe
