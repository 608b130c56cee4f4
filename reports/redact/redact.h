#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/error.h"
#include "reports/model/report.h"
#include "reports/redact/change_texts.h"
#include "reports/redact/name_places.h"

namespace dlprobe {

/// What is replaced by pseudonyms, by name: "hosts" (and nodes), "users" (of homes, of addresses
/// and of options that say so; names of projects and customers as options have them), "paths"
/// (directories, files and buckets that are not the system's or a known library's), "addresses"
/// (IPv4, IPv6, MAC).
inline constexpr std::string_view kRedactable[] = {"hosts", "users", "paths", "addresses"};

/// Replaces what names people, places and machines in reports by pseudonyms, each original by the
/// same one throughout, so that redacted reports still join. Secrets are masked once more. A report
/// that was redacted before keeps its pseudonyms.
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

  AnyReport redact(const AnyReport& report);

 private:
  using Names = std::map<std::string, std::string, std::less<>>;  ///< pseudonyms by original

  /// A name that is looked for in texts, whatever stands around it.
  struct Word {
    std::string text;
    std::string hidden;
    bool is_loose;  ///< also between '-' and '_'
    bool any_case;
  };

  bool does(const char* kind) const { return kinds_.contains(kind); }
  bool is_done(std::string_view name) const;
  std::string pseudonym(const char* kind, std::string_view name);
  void note_number(const char* kind, std::string_view pseudonym);
  void note_pseudonyms(std::string_view rest);
  const std::string* known(std::string_view name) const;

  void learn(const AnyReport& report);
  void learn_hosts(const AnyReport& report);
  void learn_folded_hosts(const AnyReport& report);
  void learn_public_file(std::string_view key, const std::string& path);
  void learn_public_comms(const report::Report& report);
  void learn_words();
  void add_word(std::string_view name, const std::string& hidden, const char* kind);

  std::string hidden_host(std::string_view host);
  std::string hidden_hosts(std::string_view list);
  std::string hidden_component(std::string_view name);
  std::string hidden_name(std::string_view name);
  std::string hidden_segment(const std::string& name);
  std::string hidden_comm(const std::string& comm);
  std::string hidden_path(std::string_view path);
  std::string hidden_place(const NamePlace& place, std::string_view text);
  std::string hide(std::string_view text, const std::vector<NamePlace>& places);
  std::string hide_text(const std::string& text);
  std::string hide_words(std::string_view text) const;
  const Word* word_at(std::string_view text, size_t at) const;
  std::string hide_field(const TextPlace& place, const std::string& text);
  std::vector<std::string> hide_arguments(const std::vector<std::string>& arguments);
  AnyReport hide_all(const AnyReport& report);

  std::set<std::string> kinds_;
  bool has_scope_ = false;
  bool was_redacted_ = false;  ///< the report at hand
  bool is_of_one_ = true;      ///< a node's, not of many
  std::string scope_;
  std::map<std::string, Names> names_;                              ///< by kind
  std::map<std::string, size_t> numbers_;                           ///< the last one, by kind
  std::set<std::string, std::less<>> public_files_, public_comms_;  ///< as the report shows them
  Names folded_;                                              ///< "n[1-4]" of the report at hand
  std::unordered_map<std::string, std::vector<Word>> words_;  ///< by their first letters and digits
  std::unordered_map<std::string, std::string> seen_;         ///< texts of the report at hand
};

}  // namespace dlprobe
