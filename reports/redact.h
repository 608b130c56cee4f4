#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "reports/report.h"

namespace dlprobe {

/// What is replaced by pseudonyms, by name: "hosts" (and nodes), "users" (in paths and before an
/// '@'), "paths" (directories and files that are not the system's or a library's), "addresses"
/// (IPv4 and IPv6).
inline constexpr std::string_view kRedactable[] = {"hosts", "users", "paths", "addresses"};

/// Replaces what names people, places and machines in reports by pseudonyms, each original by the
/// same one throughout, so that redacted reports still join. Secrets are masked once more.
class Redactor {
 public:
  /// `kinds`: of kRedactable.
  explicit Redactor(std::set<std::string> kinds) : kinds_(std::move(kinds)) {}

  /// Goes on with the pseudonyms of an earlier one (to_map()). kMalformed when it is no such map.
  Status use_map(std::string_view json_text);

  /// The pseudonyms will be kept (to_map()), so that they need not differ from those of any other
  /// redaction: host-1, host-2. Else they have a part of the first report's id: host-3fa2c1-1.
  void keeps_names() { has_scope_ = true; }

  /// The pseudonyms so far, as JSON: whoever has it can undo the redaction.
  std::string to_map() const;

  Json redact(const Json& report);

 private:
  using Names = std::map<std::string, std::string, std::less<>>;  ///< pseudonyms by original

  bool does(const char* kind) const { return kinds_.contains(kind); }
  std::string pseudonym(const char* kind, const std::string& original);
  void learn(const Json& report);
  void learn_hosts(const Json& report);
  void learn_folded_hosts(const Json& report);
  void learn_files(const Json& value, std::string_view key);
  std::string hidden_path(std::string_view path);
  std::string hidden_name(const std::string& name);
  std::string hide_paths(std::string_view text);
  Names::const_iterator longest_word(std::string_view text) const;
  std::string hide_words(std::string_view text) const;
  std::string hide_addresses(std::string_view text);
  std::string hide(const std::string& text);
  Json walk(const Json& value);

  std::set<std::string> kinds_;
  bool has_scope_ = false;
  std::string scope_;
  std::map<std::string, Names> names_;  ///< by kind
  Names words_;                         ///< whole words of the report at hand
  std::set<size_t, std::greater<>> word_lengths_;
};

}  // namespace dlprobe
