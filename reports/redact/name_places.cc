#include "reports/redact/name_places.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/base/secrets.h"
#include "reports/redact/letters.h"
#include "reports/redact/public_names.h"

namespace dlprobe {
namespace {

constexpr auto kNone = std::string_view::npos;

bool is_hex(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_quote(char c) {
  return c == '"' || c == '\'' || c == '`';
}

/// What names are made of; bytes of other alphabets as well.
bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// What hosts, files and paths are made of.
bool is_run(char c) {
  constexpr std::string_view kAlso = "./\\~+%$";
  return is_word(c) || kAlso.find(c) != kNone;
}

size_t run_length(std::string_view text, bool (*belongs)(char)) {
  return static_cast<size_t>(std::ranges::find_if_not(text, belongs) - text.begin());
}

char at_or_end(std::string_view text, size_t at) {
  return at < text.size() ? text[at] : '\0';
}

// "10.1.2.3", without what it may be a part of.
size_t length_of_ipv4(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t digits = run_length(text.substr(at), is_digit);
    const auto number = parse_int<int>(text.substr(at, digits));
    if (!number || *number > 255 || digits > 3) return 0;
    at += digits;
    if (part == 3) break;
    if (at_or_end(text, at) != '.') return 0;
    ++at;
  }
  const char next = at_or_end(text, at);
  const bool goes_on = is_word(next) || (next == '.' && is_word(at_or_end(text, at + 1)));
  return goes_on ? 0 : at;
}

// "00:1a:2b:3c:4d:5e", "00-1a-...".
size_t length_of_mac(std::string_view text) {
  constexpr size_t kPairs = 6;
  constexpr size_t kLength = kPairs * 3 - 1;
  if (text.size() < kLength || (text[2] != ':' && text[2] != '-')) return 0;
  for (size_t i = 0; i < kLength; ++i) {
    if (i % 3 == 2 ? text[i] != text[2] : !is_hex(text[i])) return 0;
  }
  const char next = at_or_end(text, kLength);
  return is_word(next) || next == ':' ? 0 : kLength;
}

/// Whether the groups between the colons are those of an address: "std::add" and "[1::2]" are not.
bool are_groups_of_ipv6(std::string_view text) {
  constexpr size_t kShortestFirst = 3;
  constexpr int kGroups = 8;
  const std::vector<std::string_view> groups = split(text, ':');
  const auto filled = std::ranges::count_if(groups, [](auto group) { return !group.empty(); });
  const bool is_short = text.contains("::");
  const bool fit = std::ranges::all_of(groups, [](auto group) { return group.size() <= 4; });
  if (!fit || filled > kGroups || (!is_short && filled < kGroups)) return false;
  return !is_short ||
         (groups.front().size() >= kShortestFirst && std::ranges::any_of(text, is_digit));
}

size_t length_of_ipv6(std::string_view text) {
  size_t at = run_length(text, [](char c) { return is_hex(c) || c == ':'; });
  // An IPv4 address as its end is a place of its own.
  if (at_or_end(text, at) == '.') at = text.substr(0, at).rfind(':') + 1;
  while (at > 1 && text[at - 1] == ':' && text[at - 2] != ':')
    --at;
  if (is_word(at_or_end(text, at)) || !text.substr(0, at).contains(':')) return 0;
  if (!are_groups_of_ipv6(text.substr(0, at))) return 0;
  // "%eth0"
  if (at_or_end(text, at) == '%') at += 1 + run_length(text.substr(at + 1), is_word);
  return at;
}

std::string_view last_word_of(std::string_view name) {
  const size_t mark = name.find_last_of("-_.");
  return mark == kNone ? name : name.substr(mark + 1);
}

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

/// By the last word of an option's or a variable's name: "--master_addr", "RDZV_ENDPOINT".
Announced announced_by_name(std::string_view name) {
  constexpr auto kHosts = std::to_array<std::string_view>(
      {"host",    "hosts",    "hostname", "hostnames", "addr",   "address", "node",
       "nodes",   "nodelist", "hostlist", "nodename",  "server", "servers", "endpoint",
       "domain",  "fqdn",     "peer",     "master",    "leader", "proxy",   "broker",
       "brokers", "gateway",  "machine",  "machines",  "ip",     "url",     "uri"});
  constexpr auto kUsers = std::to_array<std::string_view>(
      {"user", "users", "username", "login", "logname", "owner", "author", "account", "email",
       "mail", "uname", "runas", "assignee", "whoami"});
  constexpr auto kNames = std::to_array<std::string_view>(
      {"name",         "project",      "entity", "experiment", "customer",  "client",  "tenant",
       "organization", "organisation", "org",    "team",       "company",   "patient", "workspace",
       "study",        "cohort",       "dbname", "database",   "namespace", "group",   "institute",
       "department",   "site",         "bucket", "jobid"});
  const std::string full = lower_case(name);
  std::string_view last = last_word_of(full);
  const std::string_view before =
      last.size() < full.size()
          ? last_word_of(std::string_view(full).substr(0, full.size() - last.size() - 1))
          : std::string_view();
  const bool says_more = last == "name" || last == "names" || last == "id";
  if (says_more && (is_one_of(before, kHosts) || is_one_of(before, kUsers))) last = before;
  if (is_one_of(last, kHosts)) return Announced::kHost;
  if (is_one_of(last, kUsers)) return Announced::kUser;
  const bool is_id = last == "id" && (is_one_of(before, kNames) || before == "job" ||
                                      before == "run" || before == "rdzv");
  return is_one_of(last, kNames) || is_id ? Announced::kName : Announced::kNothing;
}

Announced announced_by_letter(char letter) {
  switch (letter) {
    case 'u':
    case 'U':
    case 'l':
      return Announced::kUser;
    case 'h':
    case 'H':
    case 'w':
      return Announced::kHost;
    case 'm':
      return Announced::kModule;
    case 'p':
      return Announced::kSecret;
    default:
      return Announced::kNothing;
  }
}

/// "-phunter2"; "-print", "-path" and "-prune" are options of one dash with names.
bool holds_password(std::string_view option) {
  constexpr auto kOptions = std::to_array<std::string_view>(
      {"-path", "-print", "-prune", "-perm", "-profile", "-parallel", "-port", "-pthread", "-pid",
       "-prefix", "-prof", "-progress", "-ppn", "-pipe", "-pie", "-print0", "-printf"});
  return option.size() > 2 && option.starts_with("-p") && !is_one_of(option, kOptions) &&
         option.substr(2) != kMasked;
}

/// Programs whose -p is known to be something else.
bool is_other_p(std::string_view text_before) {
  constexpr auto kPrograms =
      std::to_array<std::string_view>({"systemd-run ", "ps ", "mkdir ", "cp "});
  return std::ranges::any_of(
      kPrograms, [text_before](std::string_view each) { return text_before.contains(each); });
}

/// "n1,n2" of "n1,n2,clientaddr=n3".
std::string_view without_assignments(std::string_view list) {
  size_t comma = list.find(',');
  while (comma != kNone) {
    const std::string_view next = list.substr(comma + 1);
    if (next.substr(0, next.find(',')).contains('=')) return list.substr(0, comma);
    comma = list.find(',', comma + 1);
  }
  return list;
}

class Scanner {
 public:
  Scanner(std::string_view text, bool is_argument)
      : text_(text), is_argument_(is_argument && !text.contains(' ')), is_whole_(is_argument) {}

  NameScan scan(Announced announced);

 private:
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view run_at(size_t at) const {
    return text_.substr(at, run_length(text_.substr(at), is_run));
  }
  bool is_quoted(size_t at) const { return at > 0 && is_quote(text_[at - 1]); }

  void add(PlaceKind kind, size_t begin, size_t length);
  void add_host(size_t begin, size_t length);
  void add_authority(size_t begin, size_t length, bool is_bucket);
  void add_user(size_t begin, size_t length);
  void add_query(size_t begin, size_t end);
  void read_token();
  bool take_value(Announced announced);
  std::string_view value_at(Announced announced) const;
  bool take_user(std::string_view value);
  bool take_host(std::string_view value);
  bool take_module(std::string_view value);
  bool take_option();
  bool take_assignment();
  bool take_url(std::string_view run);
  bool take_address();
  bool take_mail(std::string_view run);
  bool take_resource_name(std::string_view run);
  bool take_windows_path(std::string_view run);
  bool take_path(std::string_view run);
  bool take_relative_path(std::string_view run);
  size_t path_end(size_t begin) const;
  bool take_host_with_port(std::string_view run);
  bool take_bare(std::string_view run);

  std::string_view text_;
  bool is_argument_;  ///< one word of a command line
  bool is_whole_;     ///< an argument, perhaps of several words
  size_t at_ = 0;
  Announced announced_ = Announced::kNothing;
  NameScan result_;
};

void Scanner::add(PlaceKind kind, size_t begin, size_t length) {
  if (length > 0) result_.places.push_back({.kind = kind, .begin = begin, .length = length});
}

void Scanner::add_user(size_t begin, size_t length) {
  if (!is_every_user(text_.substr(begin, length))) add(PlaceKind::kUser, begin, length);
}

// With a port or without.
void Scanner::add_host(size_t begin, size_t length) {
  std::string_view host = text_.substr(begin, length);
  if (host.starts_with('[')) {
    const size_t close = std::min(host.find(']'), host.size());
    host = host.substr(1, close - 1);
    ++begin;
  } else if (std::ranges::count(host, ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  if (is_every_host(lower_case(host)) || is_plain_value(host)) {
    if (length_of_ipv4(host) == 0 || is_every_host(host)) return;
  }
  const bool is_address = length_of_ipv4(host) == host.size() || host.contains(':');
  add(is_address ? PlaceKind::kAddress : PlaceKind::kHost, begin, host.size());
}

// "user:password@host:1,host:2" of a URL.
void Scanner::add_authority(size_t begin, size_t length, bool is_bucket) {
  std::string_view authority = text_.substr(begin, length);
  const size_t sign = authority.rfind('@');
  if (sign != kNone) {
    const std::string_view who = authority.substr(0, sign);
    const size_t colon = std::min(who.find(':'), who.size());
    add_user(begin, colon);
    if (colon + 1 < who.size() && who.substr(colon + 1) != kMasked)
      add(PlaceKind::kSecret, begin + colon + 1, who.size() - colon - 1);
    begin += sign + 1;
    authority.remove_prefix(sign + 1);
  }
  if (is_bucket) return add(PlaceKind::kBucket, begin, authority.size());
  for (const std::string_view host : split(authority, ',')) {
    if (!host.empty()) add_host(begin, host.size());
    begin += host.size() + 1;
  }
}

// "?id=7&name=x#part": the values, but numbers.
void Scanner::add_query(size_t begin, size_t end) {
  while (begin < end) {
    const size_t stop = std::min(text_.find_first_of("&;#", begin + 1), end);
    const std::string_view pair = text_.substr(begin + 1, stop - begin - 1);
    const size_t value = pair.find('=') == kNone ? 0 : pair.find('=') + 1;
    if (!is_plain_value(pair.substr(value)))
      add(PlaceKind::kFile, begin + 1 + value, pair.size() - value);
    begin = stop;
  }
}

std::string_view Scanner::value_at(Announced announced) const {
  if (is_whole_ && at_ == 0) return text_;
  if (is_quoted(at_)) return text_.substr(at_, text_.find(text_[at_ - 1], at_) - at_);
  const bool is_list = announced == Announced::kHost;
  std::string_view value = rest();
  value = value.substr(
      0, value.find_first_of(is_list ? " \t\r\n\"'`;&|<>(){}" : " \t\r\n\"'`;&|<>(){},[]"));
  while (value.ends_with('.') || value.ends_with(',') || value.ends_with(':'))
    value.remove_suffix(1);
  return is_list ? without_assignments(value) : value;
}

// The value of an option whose name says what it is.
bool Scanner::take_value(Announced announced) {
  const std::string_view value = value_at(announced);
  if (value.empty() || value.starts_with('-')) return false;
  switch (announced) {
    case Announced::kSecret:
      if (is_other_p(text_.substr(0, at_)) || value == "PID") return false;
      if (value != kMasked) add(PlaceKind::kSecret, at_, value.size());
      at_ += value.size();
      return true;
    case Announced::kUser:
      return take_user(value);
    case Announced::kHost:
      return take_host(value);
    case Announced::kName:
      if (value.contains('/') || value.contains('@')) return false;
      if (!is_plain_value(value)) add(PlaceKind::kName, at_, value.size());
      at_ += value.size();
      return true;
    case Announced::kModule:
      return take_module(value);
    case Announced::kNothing:
      break;
  }
  return false;
}

bool Scanner::take_user(std::string_view value) {
  if (value.contains('/') || value.contains('@') || is_plain_value(value)) return false;
  // python -u train.py
  if (!known_extension(value).empty() || is_common_component(value)) return false;
  const size_t length = std::min(value.find(':'), value.size());
  add_user(at_, length);
  at_ += length;
  return true;
}

bool Scanner::take_host(std::string_view value) {
  constexpr std::string_view kForeign = "/\\@ ?";
  if (value.find_first_of(kForeign) != kNone || is_plain_value(value)) return false;
  if (length_of_ipv4(value) > 0 || length_of_ipv6(value) > 0 || length_of_mac(value) > 0)
    return false;
  // A list of them in a file.
  if (!known_extension(value).empty() && !has_host_ending(value)) return false;
  // A header: "-H Accept:text".
  if (value.starts_with('[') || is_every_host(lower_case(value))) return false;
  add(PlaceKind::kHosts, at_, value.size());
  at_ += value.size();
  return true;
}

// "-m package.module": a commit's message is none.
bool Scanner::take_module(std::string_view value) {
  const bool is_module =
      std::ranges::all_of(value, [](char c) { return is_word(c) || c == '.'; }) &&
      !is_digit(value[0]);
  if (!is_module) return false;
  const std::string_view package = value.substr(0, value.find('.'));
  if (!is_known_package(package)) {
    size_t begin = at_;
    for (const std::string_view part : split(value, '.')) {
      if (!is_common_component(part)) add(PlaceKind::kFile, begin, part.size());
      begin += part.size() + 1;
    }
  }
  at_ += value.size();
  return true;
}

bool Scanner::take_option() {
  const bool begins = text_[at_] == '-' && (at_ == 0 || is_blank(text_[at_ - 1]) || is_quoted(at_));
  if (!begins) return false;
  const size_t dashes = rest().starts_with("--") ? 2 : 1;
  const size_t length =
      run_length(rest().substr(dashes), [](char c) { return is_word(c) || c == '.'; });
  const std::string_view name = rest().substr(dashes, length);
  if (name.empty() || !is_letter(name[0])) return false;
  const char next = at_or_end(rest(), dashes + length);
  if (dashes == 1 && next != '=' && holds_password(rest().substr(0, dashes + length)) &&
      !is_other_p(text_.substr(0, at_))) {
    const std::string_view word = rest().substr(0, rest().find_first_of(" \t\r\n\"'`"));
    add(PlaceKind::kSecret, at_ + 2, word.size() - 2);
    at_ += word.size();
    return true;
  }
  announced_ =
      name.size() == 1 && dashes == 1 ? announced_by_letter(name[0]) : announced_by_name(name);
  at_ += dashes + length;
  return true;
}

// "USER=alice", "host: node17".
bool Scanner::take_assignment() {
  constexpr auto kBeforeColon =
      std::to_array<std::string_view>({"user", "username", "host", "hostname", "email", "login"});
  const size_t length = run_length(rest(), [](char c) { return is_word(c) || c == '.'; });
  const std::string_view name = rest().substr(0, length);
  if (name.empty() || (!is_letter(name[0]) && name[0] != '_')) return false;
  const char next = at_or_end(rest(), length);
  const char after = at_or_end(rest(), length + 1);
  const bool is_equation = next == '=' && after != '=';
  const bool is_entry = next == ':' && after == ' ' && is_one_of(lower_case(name), kBeforeColon);
  if (!is_equation && !is_entry) return false;
  // "User Id=alice"
  const bool is_of_user =
      is_equation && lower_case(text_.substr(at_ - std::min<size_t>(at_, 5), 5)) == "user ";
  announced_ = is_of_user ? Announced::kUser : announced_by_name(name);
  at_ += length + 1;
  return true;
}

bool Scanner::take_url(std::string_view run) {
  constexpr std::string_view kMark = "://";
  constexpr auto kBuckets = std::to_array<std::string_view>(
      {"s3",    "s3a",  "s3n",   "gs",  "gcs",  "az",     "azure", "abfs",
       "abfss", "wasb", "wasbs", "adl", "oss",  "obs",    "cos",   "cosn",
       "swift", "b2",   "r2",    "hf",  "dbfs", "lakefs", "minio", "ais"});
  const size_t mark = run.size();
  if (rest().substr(mark, kMark.size()) != kMark || run.contains('/')) return false;
  size_t length = std::min(rest().find_first_of(" \t\r\n\"'`<>|^{}", mark), rest().size());
  while (length > mark + kMark.size() && std::string_view(".,;:!?)").contains(rest()[length - 1]))
    --length;
  const size_t begin = at_ + mark + kMark.size();
  const size_t end = std::max(at_ + length, begin);
  at_ = end;
  if (is_public_document(text_.substr(begin, end - begin))) return true;
  const size_t path = std::min(text_.find_first_of("/?#", begin), end);
  const size_t query = std::min(text_.find_first_of("?#", path), end);
  const std::string scheme = lower_case(run);
  add_authority(begin, path - begin, is_one_of(scheme, kBuckets));
  if (query > path + 1) add(PlaceKind::kPath, path, query - path);
  add_query(query, end);
  return true;
}

bool Scanner::take_address() {
  size_t length = length_of_mac(rest());
  // Behind "::" stands a C++ name.
  if (length == 0 && !text_.substr(0, at_).ends_with("::")) length = length_of_ipv6(rest());
  if (length == 0) {
    length = length_of_ipv4(rest());
    // A version of four numbers: "opencv-python 4.9.0.80", "nvidia-nccl==2.18.1.0".
    const std::string_view before = text_.substr(0, at_);
    const std::string_view word = before.ends_with(' ') ? before.substr(0, at_ - 1) : before;
    const size_t word_begin = word.find_last_of(" ,;(") + 1;
    const std::string_view name = word.substr(word_begin);
    if (length > 0 && (before.ends_with("==") || before.ends_with(">=") || name == "version" ||
                       (before.ends_with(' ') && is_known_package(name)))) {
      at_ += length;
      return true;
    }
  }
  if (length == 0) return false;
  if (!is_every_host(rest().substr(0, length))) add(PlaceKind::kAddress, at_, length);
  at_ += length;
  return true;
}

// "alice@corp.example.com", "git@host:group/project.git"; versions of symbols are none.
bool Scanner::take_mail(std::string_view run) {
  constexpr auto kNoHosts = std::to_array<std::string_view>({"plt", "sha256", "sha512", "GLIBC"});
  if (at_or_end(rest(), run.size()) != '@' || run.contains('/') || is_numeric(run)) return false;
  const size_t begin = at_ + run.size() + 1;
  std::string_view host = text_.substr(
      begin, run_length(text_.substr(begin), [](char c) { return is_word(c) || c == '.'; }));
  while (host.ends_with('.'))
    host.remove_suffix(1);
  const std::string_view word = host.substr(0, host.find('_'));
  if (host.empty() || is_numeric(host) || is_one_of(word, kNoHosts)) return false;
  add_user(at_, run.size());
  add_host(begin, host.size());
  at_ = begin + host.size();
  const bool has_path = at_or_end(text_, at_) == ':' && is_run(at_or_end(text_, at_ + 1)) &&
                        !is_digit(at_or_end(text_, at_ + 1));
  if (has_path) {
    const size_t end = path_end(at_ + 1);
    add(PlaceKind::kPath, at_ + 1, end - at_ - 1);
    at_ = end;
  }
  return true;
}

// "arn:aws:iam::123456789012:user/alice": all behind the service.
bool Scanner::take_resource_name(std::string_view run) {
  if (run != "arn" || at_or_end(rest(), run.size()) != ':') return false;
  const size_t end = std::min(text_.find_first_of(" \t\r\n\"'`,;", at_), text_.size());
  size_t begin = at_;
  for (int colons = 0; colons < 3 && begin < end; ++colons)
    begin = std::min(text_.find(':', begin), end) + 1;
  if (begin >= end) return false;
  add(PlaceKind::kName, begin, end - begin);
  at_ = end;
  return true;
}

// To the closing quote where one opened before it: names of files may have blanks.
size_t Scanner::path_end(size_t begin) const {
  constexpr size_t kLongest = 400;
  if (is_argument_ && begin == 0)
    return text_.find_first_of(":;,|\"'", run_at(0).size()) == kNone ? text_.size()
                                                                     : begin + run_at(begin).size();
  if (is_quoted(begin)) {
    const size_t close = text_.substr(0, begin + kLongest).find(text_[begin - 1], begin);
    const std::string_view inside = text_.substr(begin, close - begin);
    const bool is_one = close != kNone && inside.find_first_of("\n:;,|=\"'`") == kNone &&
                        !inside.contains(" -") && !inside.contains(" /");
    if (is_one) return close;
  }
  size_t end = begin + run_at(begin).size();
  // "/data/day=7/x", "/data/a@b".
  while (end < text_.size() && std::string_view("=@#").contains(text_[end]) &&
         is_run(at_or_end(text_, end + 1)))
    end += 1 + run_at(end + 1).size();
  while (end > begin + 1 && text_[end - 1] == '.')
    --end;
  return end;
}

bool Scanner::take_windows_path(std::string_view run) {
  const char after = at_or_end(rest(), 2);
  const bool has_drive = run.size() == 1 && is_letter(run[0]) && at_or_end(rest(), 1) == ':' &&
                         (after == '\\' || (after == '/' && at_or_end(rest(), 3) != '/'));
  const bool is_share = run.starts_with("\\\\") && is_word(at_or_end(run, 2));
  if (has_drive) {
    const bool is_one = is_quoted(at_);
    const size_t close = is_one ? text_.find(text_[at_ - 1], at_) : kNone;
    const size_t end = close != kNone ? close : at_ + 2 + run_at(at_ + 2).size();
    add(PlaceKind::kPath, at_, (is_argument_ && at_ == 0 ? text_.size() : end) - at_);
    at_ = is_argument_ && at_ == 0 ? text_.size() : end;
    return true;
  }
  if (is_share) {
    const size_t host = at_ + run.find_first_not_of('\\');
    const size_t end = path_end(at_);
    const size_t path = std::min(text_.find('\\', host), end);
    add_host(host, path - host);
    add(PlaceKind::kPath, path, end - path);
    at_ = end;
    return true;
  }
  return false;
}

bool Scanner::take_path(std::string_view run) {
  if (run.starts_with('~') && (run.size() == 1 || !is_digit(run[1]))) {
    const size_t slash = std::min(run.find('/'), run.size());
    add_user(at_ + 1, slash - 1);
    const size_t end = std::max(path_end(at_), at_ + slash);
    add(PlaceKind::kPath, at_ + slash, end - at_ - slash);
    at_ = end;
    return true;
  }
  const bool is_absolute = run.starts_with('/') && std::ranges::any_of(run, is_word);
  if (!is_absolute) return take_relative_path(run);
  const size_t end = path_end(at_);
  add(PlaceKind::kPath, at_, end - at_);
  at_ = end;
  return true;
}

/// "and/or", "images/s", "22307/22307": no path.
bool are_own_words(std::string_view run, char separator) {
  return std::ranges::all_of(split(run, separator), [](std::string_view part) {
    while (part.ends_with('.'))
      part.remove_suffix(1);
    return part.empty() || part.size() == 1 || is_numeric(part) || is_own_word(part);
  });
}

/// "\xe2\x80": how bytes are written that are no text.
bool is_escaped_text(std::string_view run) {
  size_t at = run.find('\\');
  while (at != kNone) {
    const bool is_byte = at_or_end(run, at + 1) == 'x' && is_hex(at_or_end(run, at + 2)) &&
                         is_hex(at_or_end(run, at + 3));
    const bool is_control = std::string_view("nrt0\\").contains(at_or_end(run, at + 1)) &&
                            !is_word(at_or_end(run, at + 2));
    if (!is_byte && !is_control) return false;
    at = run.find('\\', at + 1);
  }
  return true;
}

bool Scanner::take_relative_path(std::string_view run) {
  const bool has_slash = run.contains('/');
  if (!has_slash && (!run.contains('\\') || is_escaped_text(run))) return false;
  if (std::ranges::none_of(run, is_word)) return false;
  const size_t end = path_end(at_);
  const std::string_view first = run.substr(0, run.find('/'));
  const bool is_kept = is_of_known_source(run) || is_public_document(run) ||
                       (has_slash && !is_argument_ && are_own_words(run, '/'));
  if (is_kept) {
    at_ += run.size();
    return true;
  }
  if (has_slash && has_host_ending(first)) {
    add_host(at_, first.size());
    add(PlaceKind::kPath, at_ + first.size(), end - at_ - first.size());
  } else {
    add(PlaceKind::kPath, at_, end - at_);
  }
  at_ = end;
  return true;
}

// "node17:29500", "nas1:/export"; not "train.py:12" and "cuda:10".
bool Scanner::take_host_with_port(std::string_view run) {
  constexpr size_t kMostDigits = 5;
  const std::string_view after = rest().substr(run.size());
  if (!after.starts_with(':') || run.size() < 2 || !is_word(run.back()) || run.starts_with('_'))
    return false;
  const size_t digits = run_length(after.substr(1), is_digit);
  const char next = at_or_end(after, 1 + digits);
  const bool is_port = digits >= 2 && digits <= kMostDigits && !is_word(next) && next != ':' &&
                       (next != '.' || !is_digit(at_or_end(after, 2 + digits)));
  const bool is_folder = after.starts_with(":/") && is_word(at_or_end(after, 2));
  const bool is_letter_first = is_letter(run[0]) || (is_digit(run[0]) && has_host_ending(run));
  const bool is_other = counts_something(run) || is_known_package(run.substr(0, run.find('.'))) ||
                        (!known_extension(run).empty() && !has_host_ending(run)) ||
                        run.contains("__");
  if ((!is_port && !is_folder) || !is_letter_first || is_other) return false;
  add_host(at_, run.size());
  at_ += run.size();
  return true;
}

/// "node17", "nid00012", "ip-10-0-0-1": names that schedulers and clouds give to machines.
bool has_shape_of_node(std::string_view run) {
  constexpr auto kBeginnings =
      std::to_array<std::string_view>({"node", "nid", "dgx", "compute", "gpunode", "cn", "ip-"});
  for (const std::string_view beginning : kBeginnings) {
    if (!run.starts_with(beginning)) continue;
    const std::string_view number = run.substr(beginning.size());
    if (number.empty() || !is_digit(number.back())) continue;
    if (std::ranges::all_of(number, [](char c) { return is_digit(c) || c == '-'; })) return true;
  }
  return false;
}

// A host with a domain, or a file without a folder.
bool Scanner::take_bare(std::string_view run) {
  while (run.ends_with('.'))
    run.remove_suffix(1);
  const bool is_called = at_or_end(rest(), run.size()) == '(';
  const std::string_view package = run.substr(0, run.find('.'));
  if (run.empty() || is_called || is_numeric(run)) return false;
  const std::string_view extension = known_extension(run);
  if (!extension.empty() && extension.size() < run.size()) {
    std::string as_path(run);
    std::ranges::replace(as_path, '.', '/');
    if (is_known_file(run) || is_of_known_source(as_path)) return false;
    add(PlaceKind::kFile, at_, run.size());
  } else if ((has_host_ending(run) && !is_known_package(package) && !package.empty() &&
              std::ranges::all_of(run, [](char c) { return is_word(c) || c == '.'; })) ||
             has_shape_of_node(run)) {
    add_host(at_, run.size());
  } else {
    return false;
  }
  at_ += run.size();
  return true;
}

void Scanner::read_token() {
  const Announced announced = announced_;
  announced_ = Announced::kNothing;
  if (announced != Announced::kNothing && take_value(announced)) return;
  if (take_option() || take_assignment() || take_address()) return;
  const std::string_view run = run_at(at_);
  if (take_url(run) || take_resource_name(run) || take_mail(run) || take_windows_path(run)) return;
  if (take_path(run) || take_host_with_port(run) || take_bare(run)) return;
  at_ += std::max<size_t>(run.size(), 1);
}

NameScan Scanner::scan(Announced announced) {
  announced_ = announced;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (is_run(c)) {
      read_token();
      continue;
    }
    // A value follows its option behind blanks, '=' and quotes.
    if (announced_ != Announced::kNothing && !is_blank(c) && !is_quote(c) && c != '=')
      announced_ = Announced::kNothing;
    ++at_;
  }
  result_.next = is_argument_ ? announced_ : Announced::kNothing;
  return std::move(result_);
}

}  // namespace

std::vector<NamePlace> find_names(std::string_view text) {
  return Scanner(text, false).scan(Announced::kNothing).places;
}

NameScan find_names_of_argument(std::string_view argument, Announced announced) {
  return Scanner(argument, true).scan(announced);
}

}  // namespace dlprobe
