#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/suggest.h"
#include "lib/model/finding.h"
#include "reports/model/write_json.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/config/configuration.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

struct ShowOptions {
  std::string command;  ///< "report merge"; empty: all, what is set alone
  bool json = false;
};

Json option_entry(const Configuration& configuration, const CLI::App& command,
                  const CLI::Option& option, bool with_defaults) {
  const std::string name = configurable_name(option);
  if (name.empty()) return nullptr;
  const auto value = configuration.value_of(command, option);
  if (!value && !with_defaults) return nullptr;
  Json entry = {{"command", fmt::format("{}", fmt::join(path_of(command), " "))}, {"option", name}};
  entry["value"] = value ? shown_value(option, value->values) : option.get_default_str();
  entry["source"] = value ? value->place : "default";
  return entry;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the subcommands
void add_options_of(const Configuration& configuration, const CLI::App& command, bool with_defaults,
                    Json& options) {
  for (const CLI::Option* option : command.get_options()) {
    Json entry = option_entry(configuration, command, *option, with_defaults);
    if (!entry.is_null()) options.push_back(std::move(entry));
  }
  for (const CLI::App* each : subcommands_of(command))
    add_options_of(configuration, *each, with_defaults, options);
}

Json policy_json(const FindingPolicy& policy) {
  Json result = {{"severities", Json::array()},
                 {"thresholds", Json::array()},
                 {"suppressions", Json::array()}};
  for (const auto& rule : policy.severities) {
    result["severities"].push_back({{"code", info(rule.code).code},
                                    {"severity", to_string(rule.severity)},
                                    {"source", rule.source}});
  }
  for (const auto& rule : policy.thresholds) {
    result["thresholds"].push_back({{"code", info(rule.code).code},
                                    {"evidence", rule.evidence},
                                    {rule.is_upper ? "at_most" : "at_least", rule.text},
                                    {"source", rule.source}});
  }
  for (const auto& rule : policy.suppressions) {
    Json entry = {{"code", info(rule.code).code},
                  {"reason", rule.reason},
                  {"until", rule.until.empty() ? "never" : rule.until}};
    if (!rule.fingerprint.empty()) entry["fingerprint"] = rule.fingerprint;
    if (!rule.node.empty()) entry["node"] = rule.node;
    entry["source"] = rule.source;
    result["suppressions"].push_back(std::move(entry));
  }
  return result;
}

std::string text_of(const Json& entry, const char* key) {
  return entry.value(key, std::string());
}

void print_rules(const Json& rules) {
  for (const Json& each : rules["severities"]) {
    fmt::print("  {} has severity {}  ({})\n", text_of(each, "code"), text_of(each, "severity"),
               text_of(each, "source"));
  }
  for (const Json& each : rules["thresholds"]) {
    const bool is_lower = each.contains("at_least");
    fmt::print("  {} counts from {} {} {}  ({})\n", text_of(each, "code"),
               text_of(each, "evidence"), is_lower ? "of at least" : "of at most",
               text_of(each, is_lower ? "at_least" : "at_most"), text_of(each, "source"));
  }
  for (const Json& each : rules["suppressions"]) {
    const std::string until = text_of(each, "until");
    fmt::print("  {} is suppressed {}{}: {}  ({})\n", text_of(each, "code"),
               until == "never" ? "for ever" : "until " + until,
               each.contains("node") ? " on " + text_of(each, "node") : "", text_of(each, "reason"),
               text_of(each, "source"));
  }
}

void print_text(const Json& document) {
  fmt::print("Files\n");
  for (const Json& each : document["files"])
    fmt::print("  {}: {}\n", text_of(each, "path"), text_of(each, "state"));
  fmt::print("\nOptions{}\n", document["options"].empty() ? ": every one has its default" : "");
  size_t width = 0;
  const auto name_of = [](const Json& each) {
    return text_of(each, "command") + " --" + text_of(each, "option");
  };
  for (const Json& each : document["options"])
    width = std::max(width, name_of(each).size());
  for (const Json& each : document["options"]) {
    const std::string value = text_of(each, "value");
    fmt::print("  {:<{}}  {}  ({})\n", name_of(each), width, value.empty() ? "-" : value,
               text_of(each, "source"));
  }
  const Json& rules = document["findings"];
  const bool has_rules = std::ranges::any_of(rules, [](const Json& each) { return !each.empty(); });
  if (!has_rules) return;
  fmt::print("\nFindings\n");
  print_rules(rules);
}

int show(const CLI::App& app, const ShowOptions& options) {
  const Configuration& configuration = *configuration_of(app);
  const CLI::App* command = &app;
  for (const std::string_view name : split_fields(options.command)) {
    const CLI::App* found = find_subcommand(*command, name);
    if (found == nullptr) {
      const std::vector<std::string> names = subcommand_names(*command);
      complain(fmt::format("there is no subcommand '{}'{}", name, did_you_mean(name, names)));
      return kExitUsage;
    }
    command = found;
  }
  Json document = {{"kind", "dlprobe.configuration"},
                   {"schema_version", "1.0"},
                   {"files", Json::array()},
                   {"options", Json::array()},
                   {"findings", policy_json(configuration.policy())}};
  for (const Configuration::Source& each : configuration.sources())
    document["files"].push_back({{"path", each.path}, {"state", each.state}});
  add_options_of(configuration, *command, !options.command.empty(), document["options"]);
  if (options.json) {
    fmt::print("{}", text_of_json(document));
  } else {
    print_text(document);
  }
  return kExitPass;
}

int check(CLI::App& app) {
  const Configuration& configuration = *configuration_of(app);
  if (auto status = configuration.check_values(app); !status)
    return complain_and_return(status.error(), kExitUsage);
  size_t used = 0;
  for (const Configuration::Source& each : configuration.sources()) {
    if (each.state == "used") ++used;
    fmt::print("{}: {}\n", each.path, each.state == "used" ? "in order" : each.state);
  }
  if (used == 0) fmt::print("there is no file to check\n");
  return kExitPass;
}

}  // namespace

void add_config_command(CLI::App& app, int& exit_status) {
  auto* command =
      app.add_subcommand("config", "show and check dlprobe.toml and DLPROBE_* variables");
  command->require_subcommand(1);
  set_examples(*command, {{"config show", "what is set, and where"},
                          {"config check", "before it is committed"}});
  auto* showing = command->add_subcommand("show", "each value and where it was set");
  const auto options = std::make_shared<ShowOptions>();
  // Not a positional: the name of a subcommand would start it.
  showing
      ->add_option("--subcommand", options->command,
                   "all options of one subcommand, with defaults (default: only what is set)")
      ->type_name("NAME");
  showing->add_flag("--json", options->json, "for programs");
  set_examples(*showing, {{"config show", "what is set, and where"},
                          {"config show --subcommand gate", "with the defaults"}});
  showing->callback([&app, options, &exit_status] { exit_status = show(app, *options); });
  auto* checking =
      command->add_subcommand("check", "exit 2 with file, line and reason if something is wrong");
  set_examples(*checking, {{"config check", "before it is committed"}});
  checking->callback([&app, &exit_status] { exit_status = check(app); });
}

}  // namespace dlprobe
