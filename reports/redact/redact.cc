#include "reports/redact/redact.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "lib/base/host_list.h"
#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/base/secrets.h"
#include "reports/model/write_json.h"
#include "reports/redact/harmless.h"

namespace dlprobe {
namespace {

/// A kind of names, how its pseudonyms begin, and the kind of kRedactable that it belongs to.
struct KindOfNames {
  std::string_view kind;
  std::string_view noun;
  std::string_view asked_as;
};
constexpr std::array<KindOfNames, 6> kKinds = {{{"hosts", "host", "hosts"},
                                                {"users", "user", "users"},
                                                {"names", "name", "users"},
                                                {"paths", "path", "paths"},
                                                {"buckets", "bucket", "paths"},
                                                {"addresses", "address", "addresses"}}};

const KindOfNames& kind_of(std::string_view kind) {
  return *std::ranges::find(kKinds, kind, &KindOfNames::kind);
}

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

/// Hosts and users are the same in capitals; folders are not.
std::string key_of(std::string_view kind, std::string_view name) {
  return kind == "hosts" || kind == "users" ? lower_case(name) : std::string(name);
}

/// The number of "host-3" and "host-3fa2c1-3", if `name` is such a pseudonym.
std::optional<size_t> number_of(std::string_view name, std::string_view noun) {
  constexpr size_t kScope = 6;
  if (!name.starts_with(noun)) return std::nullopt;
  std::string_view rest = name.substr(noun.size());
  if (!rest.starts_with('-')) return std::nullopt;
  rest.remove_prefix(1);
  const bool has_scope = rest.size() > kScope && rest[kScope] == '-' &&
                         std::ranges::all_of(rest.substr(0, kScope), [](char c) {
                           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
                         });
  if (has_scope) rest.remove_prefix(kScope + 1);
  return parse_int<size_t>(rest);
}

// The same document with other texts.
AnyReport changed(const AnyReport& report, const TextChange& change) {
  if (report.cluster) {
    report::Cluster many;
    change_texts(cluster_shape(), &*report.cluster, &many, change);
    return many;
  }
  report::Report one;
  change_texts(report_shape(), &report.report, &one, change);
  return one;
}

const std::optional<std::vector<report::PastedName>>& names_of(const AnyReport& report) {
  return report.cluster ? report.cluster->names : report.report.names;
}

// Reports of 1.1 that have names do not list those of their limitations, events and ends of runs.
bool names_all(const AnyReport& report) {
  constexpr int kFirstMinor = 2;
  const std::string_view version =
      report.cluster ? report.cluster->schema_version : report.report.schema_version;
  return parse_int<int>(version.substr(version.find('.') + 1)).value_or(0) >= kFirstMinor;
}

}  // namespace

bool Redactor::is_done(std::string_view name) const {
  return was_redacted_ && std::ranges::any_of(kKinds, [name](const KindOfNames& each) {
           return number_of(name, each.noun).has_value();
         });
}

// What a name is called already, by whatever kind it was first.
const std::string* Redactor::known(std::string_view name) const {
  for (const KindOfNames& each : kKinds) {
    const auto names = names_.find(std::string(each.kind));
    if (names == names_.end() || each.kind == "addresses") continue;
    const auto found = names->second.find(key_of(each.kind, name));
    if (found != names->second.end()) return &found->second;
  }
  return nullptr;
}

std::string Redactor::pseudonym(const char* kind, std::string_view name) {
  const KindOfNames& names_of = kind_of(kind);
  if (is_done(name) || given_.contains(name) || !kinds_.contains(std::string(names_of.asked_as)))
    return std::string(name);
  Names& names = names_[kind];
  const std::string key = key_of(kind, name);
  const auto found = names.find(key);
  if (found != names.end()) return found->second;
  std::string hidden =
      fmt::format("{}-{}{}", names_of.noun, scope_.empty() ? "" : scope_ + "-", ++numbers_[kind]);
  names.emplace(key, hidden);
  given_.insert(hidden);
  return hidden;
}

void Redactor::note_number(const char* kind, std::string_view pseudonym) {
  const auto number = number_of(pseudonym, kind_of(kind).noun);
  size_t& last = numbers_[kind];
  last = std::max(last, number.value_or(0));
}

// Numbers that an earlier redaction gave are not given again.
void Redactor::note_pseudonyms(std::string_view rest) {
  const auto belongs = [](char c) { return is_alnum(c) || c == '-'; };
  while (!rest.empty()) {
    const auto end = std::ranges::find_if_not(rest, belongs);
    const std::string_view word = rest.substr(0, static_cast<size_t>(end - rest.begin()));
    for (const KindOfNames& each : kKinds)
      note_number(each.kind.data(), word);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
}

Status Redactor::use_map(std::string_view json_text) {
  keeps_names();
  try {
    const Json map = Json::parse(json_text);
    for (const auto& [kind, names] : map.items()) {
      const auto known_kind = std::ranges::find(kKinds, kind, &KindOfNames::kind);
      if (known_kind == kKinds.end()) {
        return failure(ErrorCode::kMalformed, "it is not a map of pseudonyms: '" + kind + "'");
      }
      for (const auto& [original, name] : names.items()) {
        names_[kind].emplace(key_of(kind, original), name.get<std::string>());
        note_number(known_kind->kind.data(), name.get<std::string>());
      }
    }
  } catch (const Json::exception& error) {
    return failure(ErrorCode::kMalformed,
                   std::string("it is not a map of pseudonyms: ") + error.what());
  }
  return {};
}

std::string Redactor::to_map() const {
  Json map = Json::object();
  for (const auto& [kind, names] : names_) {
    for (const auto& [original, name] : names)
      map[kind][original] = name;
  }
  return text_of_json(map);
}

void Redactor::learn(const AnyReport& report) {
  using report::Holds;
  tells_names_ = names_of(report).has_value() && names_all(report);
  was_redacted_ = report.report.redaction.policy == "pseudonyms";
  public_names_.clear();
  pieces_.clear();
  std::set<std::string> paths;
  const auto learn_text = [&](const TextPlace& place, const std::string& text) {
    if (was_redacted_) note_pseudonyms(text);
    const bool is_path = place.holds == Holds::kPath;
    if ((is_path || place.holds == Holds::kFunction) &&
        is_of_known_library(is_path ? text : place.path))
      public_names_.emplace(is_path ? base_name(text) : text);
    if (is_path) paths.insert(text);
    return text;
  };
  changed(report, {.text = learn_text, .command = [&](const std::vector<std::string>& words) {
                     for (const std::string& word : words)
                       learn_text({}, word);
                     return words;
                   }});
  learn_hosts(report);
  // Users are known by their homes, which paths anywhere name.
  hidden_texts(report);
  learn_pieces(report);
  for (const std::string& path : paths)
    add_piece(path, hidden_path(path), false);
  // The longest first; of the same piece as two kinds, the one that hides it.
  for (auto& [letter, pieces] : pieces_)
    std::ranges::stable_sort(pieces, [](const Piece& one, const Piece& other) {
      return std::pair(one.text.size(), one.hidden != one.text) >
             std::pair(other.text.size(), other.hidden != other.text);
    });
}

// The names that the report itself says are those of hosts, as its first ones.
void Redactor::learn_hosts(const AnyReport& report) {
  if (!report.cluster) hidden_hosts(report.report.host.node.value_or(""));
  if (!report.cluster) return static_cast<void>(hidden_hosts(report.report.host.name));
  for (const report::Node& node : report.cluster->nodes)
    hidden_hosts(node.node);
  for (const std::string& host : report.cluster->missing)
    hidden_hosts(host);
}

void Redactor::add_piece(const std::string& text, const std::string& hidden, bool any_case) {
  if (text.empty()) return;
  const Piece piece = {.text = text, .hidden = hidden, .any_case = any_case};
  const std::string first = lower_case(text.substr(0, 1));
  pieces_[first[0]].push_back(piece);
}

void Redactor::learn_pieces(const AnyReport& report) {
  constexpr size_t kShortest = 3;
  for (const char* kind : {"hosts", "users"}) {
    if (!does(kind)) continue;
    for (const auto& [name, hidden] : names_[kind]) {
      if (name.size() >= kShortest && !is_own_word(name)) add_piece(name, hidden, true);
    }
  }
  for (const auto* findings :
       {&report.report.findings, &report::items_of(report.report.suppressed)})
    for (const report::Finding& finding : *findings) {
      const std::string nodes = finding.nodes.value_or("");
      add_piece(nodes, hidden_hosts(nodes), false);
      given_.insert(hidden_hosts(nodes));
    }
  for (const report::PastedName& name : report::items_of(names_of(report)))
    add_piece(name.text, hidden_piece(name), false);
}

std::string Redactor::with_pieces_hidden(std::string_view text) const {
  std::string result;
  const auto stands_here = [&](const Piece& piece, size_t at) {
    const std::string_view here = text.substr(at, piece.text.size());
    if (here != piece.text && (!piece.any_case || lower_case(here) != piece.text)) return false;
    const size_t end = at + here.size();
    const bool goes_on = end < text.size() && is_alnum(text[end]) && is_alnum(here.back());
    return !goes_on && (at == 0 || !is_alnum(text[at - 1]) || !is_alnum(here.front()));
  };
  for (size_t at = 0; at < text.size();) {
    const auto pieces = pieces_.find(lower_case(text.substr(at, 1))[0]);
    const Piece* found = nullptr;
    if (pieces != pieces_.end()) {
      const auto piece = std::ranges::find_if(
          pieces->second, [&](const Piece& each) { return stands_here(each, at); });
      if (piece != pieces->second.end()) found = &*piece;
    }
    result += found == nullptr ? text.substr(at, 1) : found->hidden;
    at += found == nullptr ? 1 : found->text.size();
  }
  return result;
}

// "node17.corp.example.com" is the machine that the report knows as node17.
std::string Redactor::hidden_host(std::string_view host) {
  const std::string_view label = host.substr(0, host.find('.'));
  const auto found = names_["hosts"].find(lower_case(label));
  if (does("hosts") && found != names_["hosts"].end()) return found->second;
  return is_done(label) ? std::string(label) : pseudonym("hosts", host);
}

std::string Redactor::hidden_hosts(const std::string& list) {
  const auto expanded = expand_hosts(list);
  if (list.empty() || !does("hosts")) return list;
  if (!expanded || !list.contains('[')) {
    std::string result;
    for (const std::string_view host : split(list, ','))
      result += (result.empty() ? "" : ",") + hidden_host(host);
    return result;
  }
  std::vector<std::string> hidden;
  hidden.reserve(expanded->size());
  for (const std::string& host : *expanded)
    hidden.push_back(hidden_host(host));
  return fold_hosts(hidden);
}

// Without its extension, which says what it is.
std::string Redactor::hidden_component(std::string_view name) {
  if (is_custom_name(name)) return std::string(name);
  const std::string_view extension = known_extension(name);
  const std::string_view stem = name.substr(0, name.size() - extension.size());
  const std::string* before = known(stem);
  return (before != nullptr ? *before : pseudonym("paths", stem)) + std::string(extension);
}

// Each folder and file by its own pseudonym: what lies together still does.
std::string Redactor::hidden_path(std::string_view path) {
  const bool is_bare_word = path.find_first_of("./") == std::string_view::npos && is_own_word(path);
  const bool is_kept = public_names_.contains(path) || is_bare_word ||
                       (path.starts_with('<') && is_own_word(path.substr(1, path.size() - 2)));
  if (is_kept || (!does("paths") && !does("users"))) return std::string(path);
  const auto [head, tail] = kept_parts(path);
  std::string result(path.substr(0, head));
  bool is_in_home = result.ends_with("/home");
  for (size_t at = head; at < tail;) {
    const size_t end = std::min(path.find('/', at), tail);
    const std::string_view name = path.substr(at, end - at);
    const std::string small = lower_case(name);
    const bool holds_homes = small == "home" || small == "users";
    if (is_in_home && !name.empty()) {
      result += pseudonym("users", name);
    } else {
      result += does("paths") && !holds_homes ? hidden_component(name) : std::string(name);
    }
    if (!name.empty()) is_in_home = holds_homes;
    if (end < tail) result += '/';
    at = end + 1;
  }
  return result + std::string(path.substr(std::max(head, tail)));
}

// Each part of "Images.__getitem__"; "<lambda>" is the interpreter's.
std::string Redactor::hidden_name(std::string_view name) {
  if (is_harmless(name) || is_own_word(name) || is_custom_name(name) || is_version(name) ||
      public_names_.contains(name))
    return std::string(name);
  std::string result;
  for (const std::string_view part : split(name, '.')) {
    const bool is_kept = is_own_word(part) || is_plain_value(part) ||
                         (part.starts_with('<') && is_own_word(part.substr(1, part.size() - 2)));
    const std::string* before = known(part);
    if (part.data() != name.data()) result += '.';
    if (is_kept) {
      result += part;
    } else {
      result += before != nullptr ? *before : pseudonym("names", part);
    }
  }
  return result;
}

std::string Redactor::hidden_piece(const report::PastedName& piece) {
  switch (piece.kind) {
    case PartKind::kOwn:
      return piece.text;
    case PartKind::kPath:
      return hidden_path(piece.text);
    case PartKind::kHost:
      return hidden_hosts(piece.text);
    case PartKind::kUser:
      return pseudonym("users", piece.text);
    case PartKind::kName:
      return hidden_name(piece.text);
    case PartKind::kText:
      break;
  }
  return hidden_text(piece.text);
}

bool Redactor::is_harmless(std::string_view word) const {
  return word.empty() || word == kCut || is_plain_value(word) || is_done(word) ||
         given_.contains(word);
}

// "--num-workers=8": a name of dlprobe's own words, or of one letter.
std::string Redactor::hidden_option(std::string_view option) {
  const std::string_view name = option.substr(0, option.find('='));
  const std::string_view letters = name.substr(name.starts_with("--") ? 2 : 1);
  std::string words(letters);
  std::ranges::replace(words, '_', '-');
  std::string joined(letters);
  std::ranges::replace(joined, '-', '_');
  const bool is_own = is_own_word(joined) || std::ranges::all_of(split(words, '-'), is_own_word);
  if (letters.empty()) return std::string(option);
  if (name.starts_with("--") ? !is_own : letters.size() > 1) return std::string(kCut);
  if (name.size() == option.size()) return std::string(option);
  return std::string(name) + "=" + hidden_word(option.substr(name.size() + 1));
}

// One word that somebody else has chosen.
std::string Redactor::hidden_word(std::string_view word) {
  std::string text(word);
  if (is_harmless(word)) return text;
  if (does("hosts") && names_["hosts"].contains(lower_case(word))) return hidden_host(word);
  if (word.starts_with('-')) return hidden_option(word);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const bool is_address = inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
                          inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
  if (is_address) return pseudonym("addresses", word);
  const bool is_path = word.contains('/') || !known_extension(word).empty() || is_custom_name(word);
  return is_path && is_plain_path(word) ? hidden_path(word) : std::string(kCut);
}

// Each word is an own one, or a path, or what no name is; else nothing of the text is left.
std::string Redactor::hidden_words(std::string_view text) {
  constexpr std::string_view kBetween = " \t\n,=";
  constexpr std::string_view kMarks = "()[]{}'\"`;:!?.";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = std::min(text.find_first_not_of(kBetween, at), text.size());
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    const bool is_given = given_.contains(word);
    const size_t marks = std::min(word.find_first_not_of(kMarks), word.size());
    word.remove_prefix(marks);
    word = word.substr(0, word.find_last_not_of(kMarks) + 1);
    if (word.ends_with("'s")) word.remove_suffix(2);
    const bool is_path = word.starts_with('/') && is_plain_path(word);
    const bool is_option = word.starts_with('-') && hidden_option(word) == word;
    const bool stays =
        is_given || is_option || is_harmless(word) || is_own_word(word) || is_custom_name(word);
    if (!is_path && !stays) return std::string(kCut);
    result += text.substr(at, begin + marks - at);
    result += is_path ? hidden_path(word) : std::string(word);
    at = begin + marks + word.size();
    result += text.substr(at, end - at);
    at = end;
  }
  return result;
}

std::string Redactor::hidden_text(const std::string& text) {
  if (text == kCut) return text;
  const std::string result = hidden_words(with_pieces_hidden(text));
  return result == kCut && !text.contains(' ') ? hidden_word(text) : result;
}

std::string Redactor::hidden_field(const TextPlace& place, const std::string& text) {
  using report::Holds;
  switch (place.holds) {
    case Holds::kWord:
      return text;
    case Holds::kSentence:
      return tells_names_ ? with_pieces_hidden(text) : hidden_text(text);
    case Holds::kPath:
      return hidden_path(text);
    case Holds::kHost:
      return hidden_hosts(text);
    case Holds::kFunction:
      return is_of_known_library(place.path) ? text : hidden_name(text);
    case Holds::kName: {
      const bool is_program = is_of_known_library(place.path) && !text.empty() &&
                              base_name(place.path).starts_with(text);
      return is_program ? text : hidden_name(text);
    }
    case Holds::kText:
    case Holds::kArgument:
      break;
  }
  return hidden_text(text);
}

// A command line keeps its number of words.
std::vector<std::string> Redactor::hidden_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (const std::string& word : mask_secrets(arguments)) {
    const bool is_program = result.empty() && (is_own_word(word) || is_custom_name(word));
    if (is_program) {
      result.push_back(word);
    } else {
      result.push_back(word.contains(' ') ? hidden_text(word) : hidden_word(word));
    }
  }
  return result;
}

AnyReport Redactor::hidden_texts(const AnyReport& report) {
  return changed(report, {.text = std::bind_front(&Redactor::hidden_field, this),
                          .command = std::bind_front(&Redactor::hidden_arguments, this)});
}

// Each once, though several may be called the same now.
std::optional<std::vector<report::PastedName>> Redactor::hidden_names(const AnyReport& report) {
  const auto& names = names_of(report);
  if (!names) return std::nullopt;
  std::vector<report::PastedName> result;
  std::set<std::pair<PartKind, std::string>> known;
  for (const report::PastedName& name : *names) {
    std::string hidden = hidden_piece(name);
    if (known.emplace(name.kind, hidden).second)
      result.push_back({.kind = name.kind, .text = std::move(hidden)});
  }
  return result;
}

AnyReport Redactor::redact(const AnyReport& report) {
  constexpr size_t kEnough = 6;
  if (!has_scope_) scope_ = report.report.report_id.substr(0, kEnough);
  has_scope_ = true;
  learn(report);
  AnyReport result = hidden_texts(report);
  report::Redaction& redaction = result.report.redaction;
  const auto was_redacted = [&](report::RedactedKind kind) {
    return was_redacted_ && std::ranges::count(report::items_of(redaction.kinds), kind) > 0;
  };
  std::vector<report::RedactedKind> kinds;
  for (const report::RedactedKind kind : kValues<report::RedactedKind>) {
    if (kinds_.contains(std::string(to_string(kind))) || was_redacted(kind)) kinds.push_back(kind);
  }
  redaction = {.policy = "pseudonyms", .mask = std::string(kMasked), .kinds = std::move(kinds)};
  const auto names = hidden_names(report);
  const auto finish = [&](auto& document) {
    document.redaction = redaction;
    document.names = names;
    for (report::Finding& finding : document.findings) {
      if (finding.message == kCut) finding.message = finding.title;
    }
    if (document.summary.headline == kCut && !document.findings.empty())
      document.summary.headline = document.findings.front().title;
  };
  finish(result.report);
  if (result.cluster) finish(*result.cluster);
  return result;
}

}  // namespace dlprobe
