#include "reports/redact/redact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>

#include "lib/base/host_list.h"
#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/base/secrets.h"
#include "reports/model/write_json.h"
#include "reports/redact/letters.h"
#include "reports/redact/public_names.h"

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

/// Where the part of a path that a library brings begins: everybody has it.
size_t public_tail(std::string_view path) {
  for (const std::string_view mark : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = path.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = path.substr(at + mark.size());
    const std::string_view package = rest.substr(0, rest.find('/'));
    const std::string_view stem =
        package.substr(0, package.size() - known_extension(package).size());
    return is_known_package(stem) || is_known_file(package) ? at + mark.size() : path.size();
  }
  constexpr std::string_view kStandard = "/lib/python3.";
  const size_t at = path.find(kStandard);
  if (at == std::string_view::npos) return path.size();
  return std::min(path.find('/', at + kStandard.size()), path.size());
}

/// Where the system's part of a path ends: its first characters stay as they are.
size_t system_head(std::string_view path) {
  const size_t components = components_of_system(path);
  const bool has_packages = path.contains("/site-packages/") || path.contains("/dist-packages/");
  if (components == std::string_view::npos) {
    // What a process sees as its root is no system's.
    for (const std::string_view mark : {"/root", "/cwd"}) {
      const size_t at = path.find(std::string(mark) + "/");
      if (path.starts_with("/proc/") && at != std::string_view::npos) return at + mark.size();
    }
    return has_packages ? path.find("-packages/") + std::string_view("-packages").size()
                        : path.size();
  }
  size_t end = 0;
  for (size_t i = 0; i < components && end < path.size(); ++i)
    end = std::min(path.find('/', end + 1), path.size());
  return end;
}

constexpr std::array<std::string_view, 8> kKeysOfPaths = {
    "file", "path", "exe", "working_folder", "mount_point", "cgroup", "data_dir", "program"};

bool is_key_of_path(std::string_view key) {
  return std::ranges::find(kKeysOfPaths, key) != kKeysOfPaths.end();
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
  if (is_done(name) || !kinds_.contains(std::string(names_of.asked_as))) return std::string(name);
  Names& names = names_[kind];
  const std::string key = key_of(kind, name);
  const auto found = names.find(key);
  if (found != names.end()) return found->second;
  std::string hidden =
      fmt::format("{}-{}{}", names_of.noun, scope_.empty() ? "" : scope_ + "-", ++numbers_[kind]);
  names.emplace(key, hidden);
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
        return failure(ErrorCode::kMalformed, "it is no map of pseudonyms: '" + kind + "'");
      }
      for (const auto& [original, name] : names.items()) {
        names_[kind].emplace(key_of(kind, original), name.get<std::string>());
        note_number(known_kind->kind.data(), name.get<std::string>());
      }
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
  return text_of_json(map);
}

void Redactor::learn(const AnyReport& report) {
  folded_.clear();
  words_.clear();
  public_files_.clear();
  public_comms_.clear();
  is_of_one_ = !report.cluster;
  was_redacted_ = report.report.redaction.policy == "pseudonyms";
  const auto learn_text = [this](std::string_view key, const std::string& text) {
    if (was_redacted_) note_pseudonyms(text);
    learn_public_file(key, text);
    return text;
  };
  changed(report, {.text = [&](const TextPlace& place,
                               const std::string& text) { return learn_text(place.key, text); },
                   .command =
                       [&](const std::vector<std::string>& words) {
                         for (const std::string& word : words)
                           learn_text("", word);
                         return words;
                       }});
  learn_public_comms(report.report);
  if (does("hosts")) {
    learn_hosts(report);
    learn_folded_hosts(report);
  }
  // Once for the names, which are in the second walk looked for in all texts.
  seen_.clear();
  hide_all(report);
  learn_words();
  seen_.clear();
}

// The names that the report itself says are those of hosts.
void Redactor::learn_hosts(const AnyReport& report) {
  std::vector<std::string> hosts = {report.report.host.node.value_or("")};
  if (is_of_one_) hosts.push_back(report.report.host.name);
  if (report.cluster) {
    for (const report::Node& node : report.cluster->nodes)
      hosts.push_back(node.node);
    hosts.insert(hosts.end(), report.cluster->missing.begin(), report.cluster->missing.end());
  }
  for (const std::string& host : hosts) {
    if (!host.empty()) hidden_host(host);
  }
}

// "n[1-4]" stands in texts as it is.
void Redactor::learn_folded_hosts(const AnyReport& report) {
  const auto learn_one = [this](const std::string& folded) {
    if (!folded.contains('[') && !folded.contains(',')) return;
    const auto expanded = expand_hosts(folded);
    if (!expanded || expanded->empty() || !names_["hosts"].contains(lower_case(expanded->front())))
      return;
    folded_[folded] = hidden_hosts(folded);
  };
  for (const report::Finding& finding : report.report.findings)
    learn_one(finding.nodes.value_or(""));
  for (const report::Finding& finding : report::items_of(report.report.suppressed))
    learn_one(finding.nodes.value_or(""));
  for (const report::Limitation& limitation : report.report.limitations)
    learn_one(limitation.gap.what);
}

// Files of the system and of libraries, which texts name without their folders.
void Redactor::learn_public_file(std::string_view key, const std::string& path) {
  const bool is_public = path.starts_with('/') &&
                         (system_head(path) == path.size() || public_tail(path) < path.size());
  if (is_key_of_path(key) && is_public) public_files_.emplace(base_name(path));
}

// Programs of the system by what they call themselves.
void Redactor::learn_public_comms(const report::Report& report) {
  for (const report::Process& process : report.processes) {
    const std::string exe = process.exe.value_or("");
    const bool is_systems = !exe.empty() && system_head(exe) == exe.size();
    if (is_systems && !process.comm.empty() && base_name(exe).starts_with(process.comm))
      public_comms_.insert(process.comm);
  }
}

void Redactor::add_word(std::string_view name, const std::string& hidden, const char* kind) {
  constexpr size_t kShortest = 4;
  constexpr size_t kShortestLoose = 3;
  const bool is_path = std::string_view(kind) == "paths";
  const bool is_word = std::ranges::any_of(name, is_letter) && !is_common_component(name) &&
                       !is_plain_value(name) && !is_known_package(name);
  const bool is_ours =
      std::ranges::all_of(name, is_letter) && (is_own_word(name) || is_known_comm(name));
  if (!is_word || is_ours || (is_path && name.size() < kShortest) || !is_alnum(name.front()))
    return;
  const auto end = std::ranges::find_if_not(name, is_alnum);
  words_[lower_case(name.substr(0, static_cast<size_t>(end - name.begin())))].push_back(
      {.text = std::string(name),
       .hidden = hidden,
       .is_loose = !is_path && name.size() >= kShortestLoose,
       .any_case = !is_path});
}

void Redactor::learn_words() {
  for (const KindOfNames& each : kKinds) {
    if (each.kind == "addresses" || !kinds_.contains(std::string(each.asked_as))) continue;
    for (const auto& [name, hidden] : names_[std::string(each.kind)])
      add_word(name, hidden, each.kind.data());
  }
  for (const auto& [folded, hidden] : folded_) {
    const auto end = std::ranges::find_if_not(folded, is_alnum);
    words_[lower_case(std::string_view(folded.begin(), end))].push_back(
        {.text = folded, .hidden = hidden, .is_loose = true, .any_case = false});
  }
  // The longest first; of equal ones a host before a path.
  for (auto& [first, words] : words_) {
    std::ranges::stable_sort(words, std::ranges::greater{},
                             [](const Word& word) { return word.text.size(); });
  }
}

const Redactor::Word* Redactor::word_at(std::string_view text, size_t at) const {
  const std::string_view rest = text.substr(at);
  const auto end = std::ranges::find_if_not(rest, is_alnum);
  const auto words =
      words_.find(lower_case(rest.substr(0, static_cast<size_t>(end - rest.begin()))));
  if (words == words_.end()) return nullptr;
  const char before = at == 0 ? ' ' : text[at - 1];
  for (const Word& word : words->second) {
    const size_t length = word.text.size();
    if (length > rest.size()) continue;
    const std::string_view here = rest.substr(0, length);
    const char after = length < rest.size() ? rest[length] : ' ';
    const auto goes_on = [&word](char c) {
      return is_alnum(c) || (!word.is_loose && (c == '_' || c == '-'));
    };
    if (goes_on(before) || goes_on(after)) continue;
    if (here == word.text || (word.any_case && lower_case(here) == lower_case(word.text)))
      return &word;
  }
  return nullptr;
}

std::string Redactor::hide_words(std::string_view text) const {
  if (words_.empty()) return std::string(text);
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool begins = is_alnum(text[i]) && (i == 0 || !is_alnum(text[i - 1]));
    const Word* word = begins ? word_at(text, i) : nullptr;
    if (word == nullptr) {
      result += text[i++];
    } else {
      result += word->hidden;
      i += word->text.size();
    }
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

std::string Redactor::hidden_hosts(std::string_view list) {
  const auto expanded = expand_hosts(list);
  if (!expanded || !list.contains('[')) {
    std::string result;
    for (const std::string_view each : split(list, ',')) {
      const std::string_view host = each.substr(0, each.find_first_of(":="));
      if (!result.empty() || each.data() != list.data()) result += ',';
      const bool is_name = !host.empty() && !is_every_host(host) && !is_plain_value(host);
      result +=
          (is_name ? hidden_host(host) : std::string(host)) + std::string(each.substr(host.size()));
    }
    return result;
  }
  std::vector<std::string> hidden;
  hidden.reserve(expanded->size());
  for (const std::string& host : *expanded)
    hidden.push_back(hidden_host(host));
  return fold_hosts(hidden);
}

// Without its extension, which says what it is.
std::string Redactor::hidden_name(std::string_view name) {
  const std::string_view extension = known_extension(name);
  const std::string_view stem = name.substr(0, name.size() - extension.size());
  const std::string* before = known(stem);
  if (before != nullptr) return *before + std::string(extension);
  return pseudonym("paths", stem) + std::string(extension);
}

std::string Redactor::hidden_component(std::string_view name) {
  const bool is_kept = name.empty() || is_common_component(name) || known_extension(name) == name;
  return is_kept ? std::string(name) : hidden_name(name);
}

// Each folder and file by its own pseudonym: what lies together still does.
std::string Redactor::hidden_path(std::string_view path) {
  constexpr std::string_view kSeparators = "/\\";
  const size_t head = system_head(path);
  const size_t tail = std::max(std::min(public_tail(path), path.size()), head);
  std::string result(path.substr(0, head));
  bool is_in_home = head > 0 && path.substr(0, head).ends_with("/home");
  size_t at = head;
  while (at < tail) {
    const size_t end = std::min(path.find_first_of(kSeparators, at), tail);
    const std::string_view name = path.substr(at, end - at);
    const bool is_user = is_in_home && !name.empty();
    if (is_user) {
      result +=
          does("users") && !is_every_user(name) ? pseudonym("users", name) : std::string(name);
    } else {
      result += does("paths") ? hidden_component(name) : std::string(name);
    }
    if (!name.empty()) is_in_home = lower_case(name) == "home" || lower_case(name) == "users";
    if (end < tail) result += path[end];
    at = end + 1;
  }
  return result + std::string(path.substr(tail));
}

// Of shared memory: libraries make names of numbers.
std::string Redactor::hidden_segment(const std::string& name) {
  constexpr auto kMakers = std::to_array<std::string_view>(
      {"torch_", "sem.mp-", "psm_", "pymp-", "vader_segment.", "sm_segment.", "nccl-", "cuda.shm.",
       "__KMP_REGISTERED_LIB", "ucx_", "mp-"});
  // Named semaphores, of whatever name.
  constexpr std::string_view kSemaphore = "sem.";
  const bool is_made = std::ranges::any_of(
      kMakers, [&name](std::string_view maker) { return name.starts_with(maker); });
  if (is_made || name.contains('/')) return hide_text(name);
  if (!does("paths") || name.empty()) return name;
  const size_t own = name.starts_with(kSemaphore) ? kSemaphore.size() : 0;
  return name.substr(0, own) + hidden_component(std::string_view(name).substr(own));
}

// What a program calls itself; of one that the command line names, its file.
std::string Redactor::hidden_comm(const std::string& comm) {
  constexpr size_t kLongest = 15;  // the kernel keeps no more
  if (comm.empty() || is_known_comm(comm) || public_comms_.contains(comm)) return comm;
  const auto is_beginning = [&comm](std::string_view name) { return name.starts_with(comm); };
  if (comm.size() == kLongest && does("paths")) {
    for (const auto& [name, hidden] : names_["paths"]) {
      if (is_beginning(name)) return hidden;
    }
  }
  const std::string_view stem =
      std::string_view(comm).substr(0, comm.size() - known_extension(comm).size());
  const std::string* before = known(stem);
  if (before != nullptr) return *before + std::string(known_extension(comm));
  if (is_done(stem)) return comm;
  return pseudonym("names", comm);
}

std::string Redactor::hidden_place(const NamePlace& place, std::string_view text) {
  const std::string_view name = text.substr(place.begin, place.length);
  switch (place.kind) {
    case PlaceKind::kHost:
      return hidden_host(name);
    case PlaceKind::kHosts:
      return hidden_hosts(name);
    case PlaceKind::kUser:
      return pseudonym("users", name);
    case PlaceKind::kPath:
      return does("paths") || does("users") ? hidden_path(name) : std::string(name);
    case PlaceKind::kFile:
      return public_files_.contains(name) || !does("paths") ? std::string(name) : hidden_name(name);
    case PlaceKind::kAddress:
      return pseudonym("addresses", name);
    case PlaceKind::kBucket:
      return pseudonym("buckets", name);
    case PlaceKind::kName:
      return known(name) != nullptr ? *known(name) : pseudonym("names", name);
    case PlaceKind::kSecret:
      return std::string(kMasked);
  }
  return std::string(name);
}

std::string Redactor::hide(std::string_view text, const std::vector<NamePlace>& places) {
  std::string result;
  size_t at = 0;
  for (const NamePlace& place : places) {
    result += hide_words(text.substr(at, place.begin - at));
    result += hidden_place(place, text);
    at = place.begin + place.length;
  }
  return result + hide_words(text.substr(at));
}

std::string Redactor::hide_text(const std::string& text) {
  const auto seen = seen_.find(text);
  if (seen != seen_.end()) return seen->second;
  std::string result = hide(text, find_names(text));
  seen_.emplace(text, result);
  return result;
}

// What a field holds is known by its name; else it is a text.
std::string Redactor::hide_field(const TextPlace& place, const std::string& text) {
  const auto& [owner, key] = place;
  if (key == "report_id" || key == "fingerprint" || key.ends_with("_at")) return text;
  if (key == "function") return hide_words(text);
  if (key == "comm" || key == "trainer_comm") return hidden_comm(text);
  if (key == "name" && owner == "largest_segments") return hidden_segment(text);
  const bool is_host =
      key == "node" || key == "missing" || (key == "name" && owner == "host" && is_of_one_);
  if (is_host) return text.empty() || !does("hosts") ? text : hidden_host(text);
  if (!is_key_of_path(key)) return hide_text(text);
  if (text.starts_with('/')) return hidden_path(text);
  const NameScan scan = find_names_of_argument(text, Announced::kNothing);
  return hide(text, scan.places);
}

// A command line keeps its number of words; what an option says holds for the next one.
std::vector<std::string> Redactor::hide_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  Announced announced = Announced::kNothing;
  for (const std::string& word : mask_secrets(arguments)) {
    const NameScan scan = find_names_of_argument(word, announced);
    announced = scan.next;
    result.push_back(hide(word, scan.places));
  }
  return result;
}

AnyReport Redactor::hide_all(const AnyReport& report) {
  return changed(report, {.text = std::bind_front(&Redactor::hide_field, this),
                          .command = std::bind_front(&Redactor::hide_arguments, this)});
}

AnyReport Redactor::redact(const AnyReport& report) {
  constexpr size_t kEnough = 6;
  if (!has_scope_) scope_ = report.report.report_id.substr(0, kEnough);
  has_scope_ = true;
  learn(report);
  AnyReport result = hide_all(report);
  report::Redaction& redaction = result.report.redaction;
  const auto was_redacted = [&](report::RedactedKind kind) {
    return was_redacted_ && std::ranges::count(report::items_of(redaction.kinds), kind) > 0;
  };
  std::vector<report::RedactedKind> kinds;
  for (const report::RedactedKind kind : kValues<report::RedactedKind>) {
    if (kinds_.contains(std::string(to_string(kind))) || was_redacted(kind)) kinds.push_back(kind);
  }
  redaction = {.policy = "pseudonyms", .mask = std::string(kMasked), .kinds = std::move(kinds)};
  if (result.cluster) result.cluster->redaction = redaction;
  return result;
}

}  // namespace dlprobe
