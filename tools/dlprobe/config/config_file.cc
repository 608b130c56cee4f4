#include "tools/dlprobe/config/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

// toml++ 3.3 asserts of "[)" what it refuses two lines later, so a debug build would end there.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include "lib/base/parse.h"
#include "lib/base/suggest.h"
#include "lib/base/units.h"
#include "lib/model/evidence_names.h"

namespace dlprobe {
namespace {

constexpr const char* kFindings = "findings";
constexpr const char* kSuppress = "suppress";

std::string with_dashes(std::string_view key) {
  std::string result(key);
  std::ranges::replace(result, '_', '-');
  return result;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Expected<ConfigFile> read(const toml::table& top) {
    for (const auto& [key, node] : top) {
      const std::string name(key.str());
      if (name == kFindings) {
        DLP_CHECK(read_findings(node));
      } else if (name == kSuppress) {
        DLP_CHECK(read_suppressions(node));
      } else {
        DLP_CHECK(read_entry({}, key, node));
      }
    }
    return std::move(file_);
  }

 private:
  std::string place(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", path_, region.begin.line, region.begin.column);
  }
  std::string place(const toml::node& node) const { return place(node.source()); }

  std::unexpected<Error> bad(const toml::source_region& region, const std::string& why) const {
    return failure(ErrorCode::kMalformed, place(region) + ": " + why);
  }
  std::unexpected<Error> bad(const toml::node& node, const std::string& why) const {
    return bad(node.source(), why);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the names of subcommands
  Status read_entry(const std::vector<std::string>& table, const toml::key& key,
                    const toml::node& node) {
    constexpr size_t kDeepest = 4;
    const std::string name = with_dashes(key.str());
    if (const toml::table* inner = node.as_table()) {
      if (table.size() == kDeepest) return bad(key.source(), "tables nest too deeply");
      std::vector<std::string> path = table;
      path.push_back(name);
      file_.tables.push_back({.table = path, .place = place(key.source())});
      for (const auto& [inner_key, inner_node] : *inner)
        DLP_CHECK(read_entry(path, inner_key, inner_node));
      return {};
    }
    ConfigEntry entry{.table = table, .key = name, .place = place(key.source())};
    if (const toml::array* list = node.as_array()) {
      entry.kind = ConfigKind::kList;
      for (const toml::node& item : *list) {
        const auto text = text_of(item);
        if (!text) return bad(item, name + ": a list may hold texts and numbers");
        entry.values.push_back(*text);
      }
    } else {
      const auto text = text_of(node);
      if (!text) return bad(node, name + ": not a text, a number, a boolean or a list");
      entry.values = {*text};
      entry.kind = kind_of(node);
    }
    file_.entries.push_back(std::move(entry));
    return {};
  }

  static ConfigKind kind_of(const toml::node& node) {
    if (node.is_boolean()) return ConfigKind::kBoolean;
    return node.is_number() ? ConfigKind::kNumber : ConfigKind::kText;
  }

  static std::optional<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
    if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
    if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    return std::nullopt;
  }

  Expected<FindingCode> code_of(std::string_view name, const toml::source_region& region) const {
    if (const FindingInfo* finding = find_finding(name)) return finding->id;
    std::vector<std::string_view> names;
    for (const FindingInfo& each : all_findings()) {
      names.push_back(each.code);
      names.push_back(each.name);
    }
    return bad(region, fmt::format("there is no finding '{}'{}; dlprobe list shows all of them",
                                   name, did_you_mean(name, names)));
  }

  template <size_t N>
  std::unexpected<Error> unknown_key(const toml::key& key,
                                     const std::array<std::string_view, N>& known) const {
    const std::string typed = with_dashes(key.str());
    return bad(key.source(), fmt::format("unknown key '{}'{} ({})", typed,
                                         did_you_mean(typed, known), fmt::join(known, ", ")));
  }

  Status read_findings(const toml::node& node) {
    const toml::table* all = node.as_table();
    if (all == nullptr)
      return bad(node, "'findings' is a table of tables, as in [findings.DLP0104]");
    for (const auto& [key, rules] : *all) {
      DLP_TRY(const FindingCode code, code_of(key.str(), key.source()));
      const toml::table* table = rules.as_table();
      if (table == nullptr)
        return bad(rules,
                   fmt::format("'{}' is a table, as in [findings.{}]", key.str(), key.str()));
      for (const auto& [rule, value] : *table)
        DLP_CHECK(read_rule(code, rule, value));
    }
    return {};
  }

  Status read_rule(FindingCode code, const toml::key& key, const toml::node& value) {
    constexpr std::array<std::string_view, 3> kKnown = {"severity", "at-least", "at-most"};
    const std::string name = with_dashes(key.str());
    if (name == "severity") {
      const auto* text = value.as_string();
      const auto severity = text != nullptr ? from_string<Severity>(text->get()) : std::nullopt;
      if (!severity) return bad(value, R"(severity is "error", "warning" or "info")");
      file_.policy.severities.push_back({code, *severity, place(key.source())});
      return {};
    }
    if (name != "at-least" && name != "at-most") return unknown_key(key, kKnown);
    const toml::table* limits = value.as_table();
    if (limits == nullptr)
      return bad(value, name + R"( is a table of evidence, as in { leaked_bytes = "1 MiB" })");
    for (const auto& [evidence, limit] : *limits) {
      if (std::ranges::count(kNumberNames, evidence.str()) == 0)
        return bad(evidence.source(),
                   fmt::format("no finding has the evidence '{}'{}", evidence.str(),
                               did_you_mean(evidence.str(), kNumberNames)));
      const auto text = text_of(limit);
      const auto number = text ? quantity(*text) : std::nullopt;
      if (!number) return bad(limit, R"(not a number, a size ("64 MiB") or a duration ("5s"))");
      file_.policy.thresholds.push_back({.code = code,
                                         .evidence = std::string(evidence.str()),
                                         .is_upper = name == "at-most",
                                         .value = number->value,
                                         .unit = number->unit,
                                         .text = *text,
                                         .source = place(evidence.source())});
    }
    return {};
  }

  struct Quantity {
    double value = 0;
    std::string unit;  ///< "bytes" or "s", where it has one
  };

  static std::optional<Quantity> quantity(std::string text) {
    std::erase(text, ' ');
    if (const auto number = parse_double(text)) return Quantity{*number, ""};
    if (const auto bytes = parse_size(text)) return Quantity{static_cast<double>(*bytes), "bytes"};
    if (const auto time = parse_duration(text))
      return Quantity{std::chrono::duration<double>(*time).count(), "s"};
    return std::nullopt;
  }

  Status read_suppressions(const toml::node& node) {
    const toml::array* all = node.as_array();
    if (all == nullptr) return bad(node, "'suppress' is a list of tables: [[suppress]]");
    for (const toml::node& each : *all) {
      const toml::table* table = each.as_table();
      if (table == nullptr) return bad(each, "'suppress' is a list of tables: [[suppress]]");
      DLP_CHECK(read_suppression(*table));
    }
    return {};
  }

  Status read_suppression(const toml::table& table) {
    constexpr std::array<std::string_view, 5> kKnown = {"code", "reason", "until", "fingerprint",
                                                        "node"};
    FindingPolicy::Suppression rule{.source = place(table)};
    bool has_code = false;
    bool has_end = false;
    for (const auto& [key, value] : table) {
      const std::string_view name = key.str();
      if (name == "until") {
        DLP_TRY(rule.until, last_day(value));
        has_end = true;
        continue;
      }
      if (std::ranges::count(kKnown, name) == 0) return unknown_key(key, kKnown);
      const auto* text = value.as_string();
      if (text == nullptr || trim(text->get()).empty())
        return bad(value, fmt::format("{} must be a text that is not empty", name));
      if (name == "code") {
        DLP_TRY(rule.code, code_of(text->get(), value.source()));
        has_code = true;
      }
      if (name == "reason") rule.reason = text->get();
      if (name == "fingerprint") rule.fingerprint = text->get();
      if (name == "node") rule.node = text->get();
    }
    if (!has_code) return bad(table, "a suppression needs the code of a finding");
    if (rule.reason.empty()) return bad(table, "a suppression needs a reason");
    if (!has_end) {
      return bad(table, "a suppression needs its last day: until = 2027-01-31, or \"never\"");
    }
    file_.policy.suppressions.push_back(std::move(rule));
    return {};
  }

  Expected<std::string> last_day(const toml::node& node) const {
    constexpr const char* kWhat = "until must be a day, like 2027-01-31, or \"never\"";
    if (const auto* date = node.as_date()) {
      const toml::date day = date->get();
      return fmt::format("{:04}-{:02}-{:02}", day.year, day.month, day.day);
    }
    const auto* text = node.as_string();
    if (text == nullptr) return bad(node, kWhat);
    if (text->get() == "never") return std::string();
    const auto parts = split(text->get(), '-');
    if (text->get().size() != 10 || parts.size() != 3) return bad(node, kWhat);
    const auto year = parse_int<int>(parts[0]);
    const auto month = parse_int<unsigned>(parts[1]);
    const auto day = parse_int<unsigned>(parts[2]);
    if (!year || !month || !day) return bad(node, kWhat);
    const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                           std::chrono::day(*day)};
    if (!date.ok()) return bad(node, "there is no such day: " + text->get());
    return text->get();
  }

  const std::string& path_;
  ConfigFile file_;
};

// toml++ frees its tables by recursion, and limits the depth of values only: a key of 500,000 parts
// would use up the stack. Each point of a line may be one level.
Status check_depth(std::string_view text, const std::string& path) {
  constexpr int kMostPoints = 100;
  size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (std::ranges::count(line, '.') > kMostPoints) {
      return failure(
          ErrorCode::kMalformed,
          fmt::format("{}:{}: more than {} points in a line: tables nest too deeply, or a text is "
                      "too long",
                      path, number, kMostPoints));
    }
  }
  return {};
}

}  // namespace

Expected<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  DLP_CHECK(check_depth(text, path));
  try {
    return Reader(path).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return failure(ErrorCode::kMalformed,
                   fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                               error.source().begin.column, error.description()));
  }
}

}  // namespace dlprobe
