#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "reports/model/policy.h"

namespace dlprobe {

/// How a value was written.
enum class ConfigKind { kText, kNumber, kBoolean, kList };

/// A key with its value, outside of what is about findings.
struct ConfigEntry {
  std::vector<std::string> table;  ///< {"report", "merge"}; empty: the top of the file
  std::string key;                 ///< with '-' where the file has '_'
  std::vector<std::string> values;
  ConfigKind kind = ConfigKind::kText;
  std::string place;  ///< "dlprobe.toml:3:9"
};

/// What a dlprobe.toml says.
struct ConfigFile {
  std::vector<ConfigEntry> entries;
  /// The tables that are there, entries or not, with their places.
  std::vector<ConfigEntry> tables;
  FindingPolicy policy;
};

/// Reads TOML 1.0. Checks what is about findings wholly; the names of tables and keys are the
/// caller's to check. `path` is for messages: kMalformed with "PATH:LINE:COLUMN: why".
Expected<ConfigFile> parse_config(std::string_view text, const std::string& path);

}  // namespace dlprobe
