#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "reports/model/report.h"
#include "reports/redact/change_texts.h"

namespace dlprobe {

/// What is replaced by pseudonyms, by name: "hosts" (and nodes), "users" (of homes; names of
/// functions, threads and programs that are not known), "paths" (folders and files that are not the
/// system's or a known library's), "addresses" (IPv4, IPv6). Free text of others is cut out always.
inline constexpr std::string_view kRedactable[] = {"hosts", "users", "paths", "addresses"};

/// What stands in place of free text.
inline constexpr std::string_view kCut = "[text]";

/// Replaces what names people, places and machines in reports by pseudonyms, each original by the
/// same one throughout, so that redacted reports still join: each text by what its field holds. A
/// sentence of dlprobe's keeps all but the pieces that the report lists in `names`; of a report
/// without that list it is free text. Free text is cut out where it is not known to be harmless.
/// A report that was redacted before keeps its pseudonyms.
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

  /// A piece of texts that is replaced wherever it stands as words.
  struct Piece {
    std::string text;
    std::string hidden;
    bool any_case;
  };

  bool does(const char* kind) const { return kinds_.contains(kind); }
  bool is_done(std::string_view name) const;
  std::string pseudonym(const char* kind, std::string_view name);
  void note_number(const char* kind, std::string_view pseudonym);
  void note_pseudonyms(std::string_view rest);
  const std::string* known(std::string_view name) const;
  bool is_harmless(std::string_view word) const;

  void learn(const AnyReport& report);
  void learn_hosts(const AnyReport& report);
  void learn_pieces(const AnyReport& report);
  void add_piece(const std::string& text, const std::string& hidden, bool any_case);

  std::string hidden_host(std::string_view host);
  std::string hidden_hosts(const std::string& list);
  std::string hidden_component(std::string_view name);
  std::string hidden_path(std::string_view path);
  std::string hidden_name(std::string_view name);
  std::string hidden_piece(const report::PastedName& piece);
  std::string hidden_option(std::string_view option);
  std::string hidden_word(std::string_view word);
  std::string hidden_words(std::string_view text);
  std::string hidden_text(const std::string& text);
  std::string with_pieces_hidden(std::string_view text) const;
  std::string hidden_field(const TextPlace& place, const std::string& text);
  std::vector<std::string> hidden_arguments(const std::vector<std::string>& arguments);
  AnyReport hidden_texts(const AnyReport& report);
  std::optional<std::vector<report::PastedName>> hidden_names(const AnyReport& report);

  std::set<std::string> kinds_;
  bool has_scope_ = false;
  bool was_redacted_ = false;  ///< the report at hand
  bool tells_names_ = true;    ///< the same, of each piece that is not dlprobe's own
  std::string scope_;
  std::map<std::string, Names> names_;        ///< by kind
  std::map<std::string, size_t> numbers_;     ///< the last one, by kind
  std::set<std::string, std::less<>> given_;  ///< pseudonyms
  std::set<std::string, std::less<>>
      public_names_;  ///< of the report at hand: files without folders, functions
  std::map<char, std::vector<Piece>> pieces_;  ///< of the report at hand, by their first letters
};

}  // namespace dlprobe
