#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "reports/model/examination.h"
#include "reports/model/policy.h"
#include "tools/dlprobe/config/config_file.h"

namespace dlprobe {

/// The values of options that no command line gives, and what the user says of findings.
///
/// From the strongest to the weakest: the command line; the variable of the subcommand
/// (DLPROBE_GATE_LEVEL); the variable of every subcommand (DLPROBE_LEVEL); then file by file, the
/// nearest first, its table of the subcommand before its top. The files: that of --config or
/// DLPROBE_CONFIG alone; else ./dlprobe.toml, $XDG_CONFIG_HOME/dlprobe/dlprobe.toml (~/.config),
/// /etc/dlprobe/dlprobe.toml, as many of them as there are. Each of these is used only if
/// find_trusted_file() finds it: whoever writes it chooses what dlprobe runs.
class Configuration {
 public:
  /// A file that was looked for.
  struct Source {
    std::string path;
    std::string state;  ///< "used", "not there", "not used: ..."
  };
  /// What an option gets, and from where.
  struct Value {
    std::vector<std::string> values;
    ConfigKind kind = ConfigKind::kText;
    std::string place;  ///< "dlprobe.toml:3:9", "DLPROBE_GATE_LEVEL"
  };

  /// Reads the files. kInvalid or kMalformed with a line for the user. `named`: of --config.
  static Expected<Configuration> load(const std::string& named);

  /// kInvalid if a table is no subcommand of `root` or a key is no option of it, with what was
  /// probably meant.
  Status check_names(const CLI::App& root) const;

  /// Sets the options of the subcommands that were parsed, those that are not given. kInvalid with
  /// the place where a value does not fit.
  Status apply(CLI::App& root);
  /// Sets those of every subcommand, to see whether they fit.
  Status check_values(CLI::App& root) const;

  /// What a subcommand's option gets that the command line does not give.
  std::optional<Value> value_of(const CLI::App& command, const CLI::Option& option) const;

  const FindingPolicy& policy() const { return policy_; }
  const std::vector<Source>& sources() const { return sources_; }
  /// What apply() has set; secrets masked.
  const std::vector<SettingFromElsewhere>& applied() const { return applied_; }

 private:
  Status read(const std::string& path, const std::string& shown, bool must_be_there);
  Status read_near_ones();
  void note_unused(const std::string& shown, const Error& why);
  static Status set(const CLI::App& command, CLI::Option& option, const Value& value);
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the subcommands
  Status set_all(CLI::App& command, bool only_parsed,
                 std::vector<SettingFromElsewhere>* applied) const;

  std::vector<ConfigFile> files_;  ///< the nearest first
  std::vector<Source> sources_;
  FindingPolicy policy_;  ///< the farthest first: of two rules the later one counts
  std::vector<SettingFromElsewhere> applied_;
};

/// The application with its configuration, which is applied before any subcommand runs.
class ConfiguredApp : public CLI::App {
 public:
  using CLI::App::App;

  /// Adds --config and --no-config to each subcommand that has options that can be set.
  void add_config_options();

  const Configuration& configuration() const { return configuration_; }

 private:
  void pre_callback() override;

  std::string named_;
  bool none_ = false;
  Configuration configuration_;
};

/// The configuration of the application that `command` belongs to; null: it has none.
const Configuration* configuration_of(const CLI::App& command);

/// The subcommands of `command`.
std::vector<const CLI::App*> subcommands_of(const CLI::App& command);

/// Their names.
std::vector<std::string> subcommand_names(const CLI::App& command);

/// The one of that name; null: there is none.
const CLI::App* find_subcommand(const CLI::App& command, std::string_view name);

/// What was typed last of subcommands of subcommands; `app` itself before the first one.
const CLI::App& innermost(const CLI::App& app);

/// The names on the way from the application to `command`: {"report", "merge"}.
std::vector<std::string> path_of(const CLI::App& command);

/// The long name of an option that can be configured; "": it cannot.
std::string configurable_name(const CLI::Option& option);

/// What an option was set to, without secrets: "a,b".
std::string shown_value(const CLI::Option& option, const std::vector<std::string>& values);

}  // namespace dlprobe
