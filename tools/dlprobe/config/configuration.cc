#include "tools/dlprobe/config/configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/secrets.h"
#include "lib/base/suggest.h"
#include "lib/os/atomic_file.h"
#include "lib/os/path_trust.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

constexpr const char* kFileName = "dlprobe.toml";
constexpr const char* kConfigurationGroup = "Configuration";
constexpr uint64_t kLargestFile = uint64_t{1} << 20;

// An error of the configuration, on its way out of CLI11.
class ConfigurationError : public CLI::ParseError {
 public:
  explicit ConfigurationError(const dlprobe::Error& error)
      : ParseError("ConfigurationError", error.context, CLI::ExitCodes::ConfigError) {}
};

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

bool takes_list(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::string variable_of(const std::vector<std::string>& path, std::string_view option) {
  std::string name = "DLPROBE";
  for (const std::string& part : path)
    name += "_" + part;
  name += "_" + std::string(option);
  for (char& c : name) {
    if (c == '-') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::optional<Configuration::Value> value_of_variable(const std::vector<std::string>& path,
                                                      std::string_view name,
                                                      const CLI::Option& option) {
  std::string variable = variable_of(path, name);
  const auto text = own_environment(variable);
  if (!text) return std::nullopt;
  Configuration::Value value{.values = {*text}, .place = std::move(variable)};
  if (takes_list(option)) {
    value.kind = ConfigKind::kList;
    value.values.clear();
    for (const std::string_view part : split(*text, ','))
      value.values.emplace_back(trim(part));
  }
  return value;
}

std::vector<CLI::App*> settable_subcommands(CLI::App& command) {
  return command.get_subcommands([](CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& root, const std::vector<std::string>& path) {
  const CLI::App* command = &root;
  for (const std::string& name : path) {
    command = find_subcommand(*command, name);
    if (command == nullptr) break;
  }
  return command;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the subcommands
void collect_names(const CLI::App& command, bool with_subcommands,
                   std::vector<std::string>& names) {
  for (const CLI::Option* option : command.get_options()) {
    std::string name = configurable_name(*option);
    if (!name.empty() && std::ranges::count(names, name) == 0) names.push_back(std::move(name));
  }
  if (!with_subcommands) return;
  for (const CLI::App* each : subcommands_of(command))
    collect_names(*each, true, names);
}

// Options of the same command line that rule this one out.
bool is_ruled_out(const CLI::Option& option) {
  return std::ranges::any_of(option.get_excludes(),
                             [](const CLI::Option* other) { return other->count() > 0; });
}

Error at(const std::string& place, const std::string& why) {
  return {.code = ErrorCode::kInvalid, .context = place + ": " + why};
}

}  // namespace

std::vector<std::string> path_of(const CLI::App& command) {
  std::vector<std::string> path;
  for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent())
    path.insert(path.begin(), app->get_name());
  return path;
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> subcommand_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : subcommands_of(command))
    names.push_back(each->get_name());
  return names;
}

const CLI::App* find_subcommand(const CLI::App& command, std::string_view name) {
  const auto all = subcommands_of(command);
  const auto found =
      std::ranges::find(all, name, [](const CLI::App* each) { return each->get_name(); });
  return found == all.end() ? nullptr : *found;
}

const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty())
    chosen = chosen->get_subcommands().front();
  return *chosen;
}

std::string shown_value(const CLI::Option& option, const std::vector<std::string>& values) {
  std::vector<std::string> words = {"--" + configurable_name(option)};
  words.insert(words.end(), values.begin(), values.end());
  words = mask_secrets(words);
  words.erase(words.begin());
  return fmt::format("{}", fmt::join(words, ","));
}

std::string configurable_name(const CLI::Option& option) {
  constexpr std::array<std::string_view, 5> kNot = {"help", "help-all", "version", "config",
                                                    "no-config"};
  if (option.get_lnames().empty() || option.get_positional()) return "";
  const std::string& name = option.get_lnames().front();
  return std::ranges::count(kNot, name) > 0 ? "" : name;
}

Expected<Configuration> Configuration::load(const std::string& named) {
  Configuration configuration;
  std::string path = named;
  if (path.empty()) path = own_environment("DLPROBE_CONFIG").value_or("");
  const Status status = path.empty() ? configuration.read_near_ones()
                                     : configuration.read(path, path, /*must_be_there=*/true);
  if (!status) return std::unexpected(status.error());
  for (auto file = configuration.files_.rbegin(); file != configuration.files_.rend(); ++file) {
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(configuration.policy_.severities, file->policy.severities);
    append(configuration.policy_.thresholds, file->policy.thresholds);
    append(configuration.policy_.suppressions, file->policy.suppressions);
  }
  return configuration;
}

Status Configuration::read_near_ones() {
  DLP_CHECK(read(kFileName, kFileName, /*must_be_there=*/false));
  std::string home = own_environment("XDG_CONFIG_HOME").value_or("");
  if (home.empty()) {
    home = own_environment("HOME").value_or("");
    if (!home.empty()) home += "/.config";
  }
  if (home.starts_with('/')) {
    const std::string path = home + "/dlprobe/" + kFileName;
    DLP_CHECK(read(path, path, /*must_be_there=*/false));
  }
  const std::string path = std::string("/etc/dlprobe/") + kFileName;
  return read(path, path, /*must_be_there=*/false);
}

void Configuration::note_unused(const std::string& shown, const Error& why) {
  if (why.code == ErrorCode::kInvalid) {
    complain(fmt::format("{0} is not used: {1}; --config {0} uses it, --no-config says nothing",
                         shown, why.context));
  }
  // Whoever runs under another's HOME may not look, and need not be told each time.
  sources_.push_back(
      {shown, why.code == ErrorCode::kNotFound ? "not there" : "not used: " + to_string(why)});
}

Status Configuration::read(const std::string& path, const std::string& shown, bool must_be_there) {
  const auto refuse = [&](const Error& error) {
    return failure(ErrorCode::kInvalid, "the configuration: " + to_string(error));
  };
  Expected<std::string> text;
  if (must_be_there) {
    text = read_whole_file(path, kLargestFile);
  } else {
    const auto found = find_trusted_file(path);
    if (!found) {
      note_unused(shown, found.error());
      return {};
    }
    text = read_trusted_file(*found, shown, kLargestFile);
  }
  if (!text) return refuse(text.error());
  auto file = parse_config(*text, shown);
  if (!file) return refuse(file.error());
  sources_.push_back({shown, "used"});
  files_.push_back(std::move(*file));
  return {};
}

namespace {

Status check_table(const CLI::App& root, const ConfigEntry& table,
                   const std::vector<std::string>& tables) {
  if (find_command(root, table.table) != nullptr) return {};
  return std::unexpected(
      at(table.place, fmt::format("there is no subcommand '{}'{}", fmt::join(table.table, " "),
                                  did_you_mean(table.table.back(), tables))));
}

Status check_key(const CLI::App& root, const ConfigEntry& entry,
                 const std::vector<std::string>& tables) {
  std::vector<std::string> names;
  const bool is_top = entry.table.empty();
  collect_names(*find_command(root, entry.table), is_top, names);
  if (std::ranges::count(names, entry.key) > 0) return {};
  if (is_top && std::ranges::count(tables, entry.key) > 0)
    return std::unexpected(
        at(entry.place, fmt::format("'{0}' is a table: [{0}], with its keys below", entry.key)));
  if (is_top) names.insert(names.end(), tables.begin(), tables.end());
  const std::string whose =
      is_top ? "no subcommand has such an option"
             : fmt::format("'{}' has no such option", fmt::join(entry.table, " "));
  return std::unexpected(at(entry.place, fmt::format("unknown key '{}': {}{}", entry.key, whose,
                                                     did_you_mean(entry.key, names))));
}

}  // namespace

Status Configuration::check_names(const CLI::App& root) const {
  std::vector<std::string> tables = subcommand_names(root);
  tables.insert(tables.end(), {"findings", "suppress"});
  for (const ConfigFile& file : files_) {
    for (const ConfigEntry& table : file.tables)
      DLP_CHECK(check_table(root, table, tables));
    for (const ConfigEntry& entry : file.entries)
      DLP_CHECK(check_key(root, entry, tables));
  }
  return {};
}

std::optional<Configuration::Value> Configuration::value_of(const CLI::App& command,
                                                            const CLI::Option& option) const {
  const std::string name = configurable_name(option);
  if (name.empty()) return std::nullopt;
  const std::vector<std::string> path = path_of(command);
  if (auto value = value_of_variable(path, name, option)) return value;
  if (auto value = value_of_variable({}, name, option)) return value;
  for (const ConfigFile& file : files_) {
    for (const auto& table : {path, std::vector<std::string>{}}) {
      const auto entry = std::ranges::find_if(file.entries, [&](const ConfigEntry& each) {
        return each.table == table && each.key == name;
      });
      if (entry == file.entries.end()) continue;
      return Value{.values = entry->values, .kind = entry->kind, .place = entry->place};
    }
  }
  return std::nullopt;
}

Status Configuration::set(const CLI::App& command, CLI::Option& option, const Value& value) {
  const std::string name = configurable_name(option);
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(
        at(value.place, fmt::format("{} --{}: {}", fmt::join(path_of(command), " "), name, why)));
  };
  const bool is_word = value.values.size() == 1;
  if (is_flag(option)) {
    constexpr std::array<std::string_view, 4> kTruths = {"true", "false", "1", "0"};
    if (!is_word || std::ranges::count(kTruths, value.values.front()) == 0)
      return refuse("true or false is asked for, not '" +
                    fmt::format("{}", fmt::join(value.values, ", ")) + "'");
    if (value.values.front() == "false" || value.values.front() == "0") return {};
  } else if (value.kind == ConfigKind::kBoolean) {
    return refuse("a value is asked for, not " + value.values.front());
  } else if (value.kind == ConfigKind::kList && !takes_list(option)) {
    return refuse("one value is asked for, not a list");
  }
  if (value.values.empty()) return {};
  try {
    if (is_flag(option)) {
      option.add_result("true");
    } else {
      option.add_result(value.values);
    }
    option.run_callback();
  } catch (const CLI::Error& error) {
    return refuse(error.what());
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the subcommands
Status Configuration::set_all(CLI::App& command, bool only_parsed,
                              std::vector<SettingFromElsewhere>* applied) const {
  for (CLI::Option* option : command.get_options()) {
    if (option->count() > 0 || is_ruled_out(*option)) continue;
    const auto value = value_of(command, *option);
    if (!value) continue;
    DLP_CHECK(set(command, *option, *value));
    if (applied == nullptr || option->count() == 0) continue;
    applied->push_back({.name = "--" + configurable_name(*option),
                        .value = shown_value(*option, value->values),
                        .source = value->place});
  }
  for (CLI::App* each : only_parsed ? command.get_subcommands() : settable_subcommands(command))
    DLP_CHECK(set_all(*each, only_parsed, applied));
  return {};
}

Status Configuration::apply(CLI::App& root) {
  return set_all(root, /*only_parsed=*/true, &applied_);
}

Status Configuration::check_values(CLI::App& root) const {
  return set_all(root, /*only_parsed=*/false, nullptr);
}

namespace {

// NOLINTNEXTLINE(misc-no-recursion): as deep as the subcommands
void add_options_to(CLI::App& command, std::string& named, bool& none) {
  std::vector<std::string> names;
  collect_names(command, false, names);
  const std::vector<std::string> path = path_of(command);
  if (!names.empty() || (!path.empty() && path.front() == "config")) {
    auto* file = command.add_option("--config", named, "read options and rules only from FILE")
                     ->type_name("FILE")
                     ->group(kConfigurationGroup);
    command.add_flag("--no-config", none, "read no configuration file")
        ->excludes(file)
        ->group(kConfigurationGroup);
  }
  for (CLI::App* each : settable_subcommands(command))
    add_options_to(*each, named, none);
}

}  // namespace

void ConfiguredApp::add_config_options() {
  add_options_to(*this, named_, none_);
}

void ConfiguredApp::pre_callback() {
  const CLI::App& command = innermost(*this);
  std::vector<std::string> names;
  collect_names(command, false, names);
  const bool is_about_it = &command != this && path_of(command).front() == "config";
  if (none_ || (names.empty() && !is_about_it)) return;
  auto loaded = Configuration::load(named_);
  if (!loaded) throw ConfigurationError(loaded.error());
  configuration_ = std::move(*loaded);
  Status status = configuration_.check_names(*this);
  if (status && !is_about_it) status = configuration_.apply(*this);
  if (!status) throw ConfigurationError(status.error());
}

const Configuration* configuration_of(const CLI::App& command) {
  const CLI::App* app = &command;
  while (app->get_parent() != nullptr)
    app = app->get_parent();
  const auto* configured = dynamic_cast<const ConfiguredApp*>(app);
  return configured == nullptr ? nullptr : &configured->configuration();
}

}  // namespace dlprobe
