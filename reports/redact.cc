#include "reports/redact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "lib/base/host_list.h"
#include "lib/base/parse.h"
#include "lib/base/secrets.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

constexpr size_t kShortestFileName = 4;

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// What a name may be made of: a match that goes on is another name.
bool is_name_character(char c) {
  return is_alnum(c) || c == '_' || c == '-';
}

std::string raw(const Json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

std::string raw_at(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? raw(object[key]) : "";
}

// Folders that look alike on every machine.
bool is_of_system(std::string_view first) {
  constexpr std::array<std::string_view, 12> kSystem = {
      "usr", "lib", "lib32", "lib64", "bin", "sbin", "proc", "sys", "dev", "etc", "run", "boot"};
  return std::ranges::find(kSystem, first) != kSystem.end();
}

// Folders that have the same name everywhere, with the user's own below them.
bool is_common(std::string_view first) {
  constexpr std::array<std::string_view, 8> kCommon = {"home", "root", "opt", "mnt",
                                                       "srv",  "tmp",  "var", "Users"};
  return std::ranges::find(kCommon, first) != kCommon.end();
}

// Where the part that a library brings begins: everybody has it.
size_t public_tail(std::string_view path) {
  size_t best = std::string_view::npos;
  for (const std::string_view mark : {"/site-packages/", "/dist-packages/", "/lib/python"})
    best = std::min(best, path.find(mark));
  return best;
}

bool ends_path(char c) {
  constexpr std::string_view kEnds = " \t\n\"'`<>|,;:()[]{}=&";
  return kEnds.find(c) != std::string_view::npos;
}

std::string_view extension_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  const bool is_one = dot != std::string_view::npos && dot > 0 && name.size() - dot <= 6;
  return is_one ? name.substr(dot) : std::string_view();
}

// "10.1.2.3", without what it may be a part of.
size_t length_of_ipv4(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    size_t digits = 0;
    while (at + digits < text.size() && digits < 4 &&
           std::isdigit(static_cast<unsigned char>(text[at + digits])) != 0)
      ++digits;
    const auto number = parse_int<int>(text.substr(at, digits));
    if (!number || *number > 255) return 0;
    at += digits;
    if (part == 3) break;
    if (at >= text.size() || text[at] != '.') return 0;
    ++at;
  }
  return at < text.size() && (is_alnum(text[at]) || text[at] == '.') ? 0 : at;
}

// At least three colons and hexadecimal digits, as of "fe80::1:2:3"; times of day have two.
size_t length_of_ipv6(std::string_view text) {
  size_t colons = 0;
  size_t at = 0;
  while (at < text.size() &&
         (std::isxdigit(static_cast<unsigned char>(text[at])) != 0 || text[at] == ':')) {
    colons += text[at] == ':' ? 1 : 0;
    ++at;
  }
  while (at > 0 && text[at - 1] == ':')
    --at;
  const bool is_address = colons >= 3 && (text.substr(0, at).contains("::") || colons >= 7);
  return is_address ? at : 0;
}

}  // namespace

std::string Redactor::pseudonym(const char* kind, const std::string& original) {
  Names& names = names_[kind];
  const auto known = names.find(original);
  if (known != names.end()) return known->second;
  // "hosts" are host-1, host-2, ...
  const std::string noun = std::string(kind).substr(
      0, std::string_view(kind).size() - (std::string_view(kind) == "addresses" ? 2 : 1));
  std::string name =
      fmt::format("{}-{}{}", noun, scope_.empty() ? "" : scope_ + "-", names.size() + 1);
  names.emplace(original, name);
  return name;
}

Status Redactor::use_map(std::string_view json_text) {
  keeps_names();
  try {
    const Json map = Json::parse(json_text);
    for (const auto& [kind, names] : map.items()) {
      if (std::ranges::find(kRedactable, kind) == std::end(kRedactable)) {
        return failure(ErrorCode::kMalformed, "it is no map of pseudonyms: '" + kind + "'");
      }
      for (const auto& [original, name] : names.items())
        names_[kind].emplace(original, name.get<std::string>());
    }
  } catch (const Json::exception& error) {
    return failure(ErrorCode::kMalformed,
                   std::string("it is no map of pseudonyms: ") + error.what());
  }
  return {};
}

std::string Redactor::to_map() const {
  Json map = Json::object();
  for (const auto& [kind, names] : names_) {
    for (const auto& [original, name] : names)
      map[kind][original] = name;
  }
  return render_json(map);
}

// The names that the report itself says are those of hosts and of the user's files.
void Redactor::learn(const Json& report) {
  words_.clear();
  if (does("hosts")) {
    learn_hosts(report);
    learn_folded_hosts(report);
  }
  if (does("paths")) learn_files(report, "");
  word_lengths_.clear();
  for (const auto& [word, hidden] : words_)
    word_lengths_.insert(word.size());
}

void Redactor::learn_hosts(const Json& report) {
  std::vector<std::string> hosts = {raw_at(object_at(report, "host"), "node")};
  if (raw_at(report, "kind") == kReportKind)
    hosts.push_back(raw_at(object_at(report, "host"), "name"));
  for (const Json& node : items_at(report, "nodes"))
    hosts.push_back(raw_at(node, "node"));
  for (const Json& name : items_at(report, "missing"))
    hosts.push_back(raw(name));
  for (const std::string& host : hosts) {
    if (!host.empty()) words_[host] = pseudonym("hosts", host);
  }
}

// "n[1-4]" stands in texts as it is.
void Redactor::learn_folded_hosts(const Json& report) {
  const auto learn_one = [this](const std::string& folded) {
    if (!folded.contains('[') && !folded.contains(',')) return;
    const auto expanded = expand_hosts(folded);
    if (!expanded || expanded->empty() || !words_.contains(expanded->front())) return;
    std::vector<std::string> hidden;
    hidden.reserve(expanded->size());
    for (const std::string& host : *expanded)
      hidden.push_back(pseudonym("hosts", host));
    words_[folded] = fold_hosts(hidden);
  };
  for (const Json& finding : items_at(report, "findings"))
    learn_one(raw_at(finding, "nodes"));
  for (const Json& finding : items_at(report, "suppressed"))
    learn_one(raw_at(finding, "nodes"));
  for (const Json& gap : items_at(report, "limitations"))
    learn_one(raw_at(gap, "what"));
}

// Names of files without a folder: of the command line, and as texts shorten them.
void Redactor::learn_files(const Json& value, std::string_view key) {
  if (value.is_string()) {
    constexpr std::array<std::string_view, 7> kHoldFiles = {"file", "path",    "exe",    "command",
                                                            "argv", "cmdline", "program"};
    if (std::ranges::find(kHoldFiles, key) == kHoldFiles.end()) return;
    const auto& text = value.get_ref<const std::string&>();
    const bool is_system = text.starts_with('/') &&
                           is_of_system(std::string_view(text).substr(1, text.find('/', 1) - 1));
    if (is_system || public_tail(text) != std::string::npos || text.starts_with('-')) return;
    const std::string name = text.substr(text.rfind('/') + 1);
    if (name.size() >= kShortestFileName && !extension_of(name).empty() && !name.contains(' '))
      words_[name] = hidden_name(name);
    return;
  }
  if (value.is_array()) {
    for (const Json& item : value)
      learn_files(item, key);
  } else if (value.is_object()) {
    for (const auto& [name, item] : value.items())
      learn_files(item, name);
  }
}

std::string Redactor::hidden_name(const std::string& name) {
  const std::string_view extension = extension_of(name);
  const std::string stem = name.substr(0, name.size() - extension.size());
  return pseudonym("paths", stem) + std::string(extension);
}

// Each folder and file by its own pseudonym: what lies together still does.
std::string Redactor::hidden_path(std::string_view path) {
  const size_t tail = std::min(public_tail(path), path.size());
  const std::string_view own = path.substr(0, tail);
  const std::string_view first = own.substr(1, own.find('/', 1) - 1);
  if (is_of_system(first)) return std::string(path);
  std::string result;
  bool is_home = false;
  size_t at = 1;
  size_t depth = 0;
  while (at <= own.size()) {
    const size_t end = std::min(own.find('/', at), own.size());
    const std::string name(own.substr(at, end - at));
    at = end + 1;
    result += '/';
    ++depth;
    if (name.empty()) continue;
    if (depth == 1 && is_common(name)) {
      is_home = name == "home" || name == "Users";
      result += name;
    } else if (depth == 2 && is_home && does("users")) {
      result += pseudonym("users", name);
    } else {
      result += does("paths") ? hidden_name(name) : name;
    }
  }
  return result + std::string(path.substr(tail));
}

std::string Redactor::hide_paths(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool begins = text[i] == '/' && i + 1 < text.size() && is_name_character(text[i + 1]) &&
                        (i == 0 || (!is_name_character(text[i - 1]) && text[i - 1] != '/' &&
                                    text[i - 1] != '.' && text[i - 1] != ':'));
    if (!begins) {
      result += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && !ends_path(text[end]))
      ++end;
    std::string_view path = text.substr(i, end - i);
    // A full stop ends the sentence.
    while (path.ends_with('.'))
      path.remove_suffix(1);
    result += hidden_path(path);
    i += path.size();
  }
  return result;
}

Redactor::Names::const_iterator Redactor::longest_word(std::string_view text) const {
  for (const size_t length : word_lengths_) {
    if (length > text.size()) continue;
    if (length < text.size() && is_name_character(text[length])) continue;
    const auto found = words_.find(text.substr(0, length));
    if (found != words_.end()) return found;
  }
  return words_.end();
}

std::string Redactor::hide_words(std::string_view text) const {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto found =
        i == 0 || !is_name_character(text[i - 1]) ? longest_word(text.substr(i)) : words_.end();
    if (found == words_.end()) {
      result += text[i++];
    } else {
      result += found->second;
      i += found->first.size();
    }
  }
  return result;
}

std::string Redactor::hide_addresses(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool may_begin =
        i == 0 || (!is_name_character(text[i - 1]) && text[i - 1] != '.' && text[i - 1] != ':');
    size_t length = 0;
    if (may_begin) {
      length = length_of_ipv4(text.substr(i));
      if (length == 0) length = length_of_ipv6(text.substr(i));
    }
    if (length == 0) {
      result += text[i++];
    } else {
      result += pseudonym("addresses", std::string(text.substr(i, length)));
      i += length;
    }
  }
  return result;
}

std::string Redactor::hide(const std::string& text) {
  std::string result = text;
  if (does("addresses")) result = hide_addresses(result);
  if (does("paths") || does("users")) result = hide_paths(result);
  return hide_words(result);
}

Json Redactor::walk(const Json& value) {
  if (value.is_string()) return hide(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json result = Json::array();
    // A command line keeps its number of words; an option's secret is the next word.
    const bool is_all_text = !value.empty() && std::ranges::all_of(value, [](const Json& each) {
      return each.is_string();
    });
    if (is_all_text) {
      for (const std::string& word : mask_secrets(value.get<std::vector<std::string>>()))
        result.push_back(hide(word));
      return result;
    }
    for (const Json& item : value)
      result.push_back(walk(item));
    return result;
  }
  if (!value.is_object()) return value;
  Json result = Json::object();
  for (const auto& [key, item] : value.items())
    result[key] = walk(item);
  return result;
}

Json Redactor::redact(const Json& report) {
  constexpr size_t kEnough = 6;
  if (!has_scope_) scope_ = raw_at(report, "report_id").substr(0, kEnough);
  has_scope_ = true;
  learn(report);
  // Codes, fingerprints and the tool's own words hold no names.
  Json result = walk(report);
  result["redaction"] = {{"policy", "pseudonyms"}, {"mask", kMasked}, {"kinds", kinds_}};
  return result;
}

}  // namespace dlprobe
