#include "lib/base/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/lower_case.h"
#include "lib/base/path_name.h"
#include "lib/base/secret_names.h"

namespace dlprobe {
namespace {

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

double bits_per_character(std::string_view word) {
  std::array<uint32_t, 256> counts{};
  for (const char c : word)
    ++counts.at(static_cast<unsigned char>(c));
  double bits = 0;
  for (const uint32_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(word.size());
    bits -= share * std::log2(share);
  }
  return bits;
}

/// "train", "CamelCase", "GPU": in one word of a person's there are few capitals, or nothing else.
bool has_case_of_a_word(std::string_view letters) {
  constexpr auto kMostHumps = 3;
  const auto capitals = std::ranges::count_if(letters, [](char c) { return c >= 'A' && c <= 'Z'; });
  return capitals <= kMostHumps || capitals == std::ssize(letters);
}

/// Words as in names and file names: letters, behind which a number may stand, between '-' and '_'.
bool is_made_of_words(std::string_view text) {
  constexpr size_t kLongestWord = 16;
  constexpr size_t kLongestNumber = 4;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find_first_of("-_"));
    const auto letters_end = std::ranges::find_if_not(
        part, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
    const auto letters = static_cast<size_t>(letters_end - part.begin());
    const std::string_view number = part.substr(letters);
    const bool is_number = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    const bool is_word = letters <= kLongestWord && has_case_of_a_word(part.substr(0, letters));
    if (!is_word || !is_number || number.size() > kLongestNumber) return false;
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return true;
}

/// A key as a service makes it, or a UUID: 32 hexadecimal digits in a row, hyphens as in a UUID or
/// not.
bool has_long_hex(std::string_view word) {
  constexpr int kShortest = 32;
  int digits = 0;
  for (const char c : word) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) {
      if (++digits == kShortest) return true;
    } else if (c != '-') {
      digits = 0;
    }
  }
  return false;
}

/// A long word of letters and digits, both, that no person would write. A path's parts are words of
/// their own, and so is what '-' and '_' separate only if that is short.
bool looks_random(std::string_view word) {
  constexpr size_t kShortest = 24;
  constexpr double kRandomBits = 3.6;  // English words: about 3; hexadecimal digits: up to 4
  if (word.size() < kShortest || is_made_of_words(word)) return false;
  const bool digits = std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
  const bool letters = std::ranges::any_of(
      word, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
  return digits && letters && bits_per_character(word) >= kRandomBits;
}

bool is_word_character(char c) {
  return is_alnum(c) || c == '-' || c == '_' || c == '+' || c == '~';
}

/// A published prefix of a service's tokens.
struct Shape {
  std::string_view prefix;
  bool may_be_words;  ///< other things begin so: "sk-learn-contrib"
};

/// Where the first token in `word` begins: behind its beginning, or '-', '_' or the like.
std::optional<size_t> find_token(std::string_view word) {
  constexpr auto kShapes = std::to_array<Shape>({
      {"AKIA", false},
      {"ASIA", false},
      {"hf_", true},
      {"ghp_", false},
      {"gho_", false},
      {"ghu_", false},
      {"ghs_", false},
      {"ghr_", false},
      {"github_pat_", false},
      {"glpat-", false},
      {"xoxb-", false},
      {"xoxp-", false},
      {"sk-", true},
      {"eyJ", true},
      {"wandb_v", true},
      {"AIza", false},
  });
  constexpr size_t kShortest = 16;
  for (const Shape& shape : kShapes) {
    size_t at = word.find(shape.prefix);
    while (at != std::string_view::npos && at > 0 && is_alnum(word[at - 1]))
      at = word.find(shape.prefix, at + 1);
    const std::string_view token = word.substr(std::min(at, word.size()));
    // What is behind a later prefix is shorter, and made of words if this is.
    if (token.size() < kShortest) continue;
    if (!shape.may_be_words || !is_made_of_words(token)) return at;
  }
  return std::nullopt;
}

/// `text` with each word that `masked` gives something else for.
template <class Masked>
std::string change_words(std::string_view text, const Masked& masked) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, is_word_character);
    const auto length = static_cast<size_t>(end - text.begin());
    result += masked(text.substr(0, length));
    text.remove_prefix(length);
    if (text.empty()) break;
    result += text.front();
    text.remove_prefix(1);
  }
  return result;
}

/// Masks every word of the text that is a token by its shape.
std::string mask_words(std::string_view text) {
  return change_words(text, [](std::string_view word) {
    return find_token(word) || has_long_hex(word) || looks_random(word) ? kMasked : word;
  });
}

/// A text whose parts are masked in their order.
class MaskedCopy {
 public:
  explicit MaskedCopy(std::string_view text) : text_(text) {}

  void mask(size_t begin, size_t end) {
    result_ += text_.substr(copied_, begin - copied_);
    result_ += kMasked;
    copied_ = end;
  }
  size_t copied() const { return copied_; }
  std::string finish() && { return std::move(result_ += text_.substr(copied_)); }

 private:
  std::string_view text_;
  std::string result_;
  size_t copied_ = 0;
};

/// Where the next of some characters is: hostile text may ask at each of its bytes, and the answer
/// is the same for many.
class NextOf {
 public:
  NextOf(std::string_view text, std::string_view characters)
      : text_(text), characters_(characters), at_(find(0)) {}

  /// At `begin` or behind it; the end of the text where there is none. `begin` never moves back.
  size_t from(size_t begin) {
    if (at_ < begin) at_ = find(begin);
    return at_;
  }

 private:
  size_t find(size_t begin) const {
    return std::min(text_.find_first_of(characters_, begin), text_.size());
  }

  std::string_view text_;
  std::string_view characters_;
  size_t at_;
};

/// "https://user:password@host" loses what stands before the '@'.
std::string mask_url_users(std::string_view text) {
  constexpr std::string_view kScheme = "://";
  MaskedCopy copy(text);
  for (size_t at = text.find(kScheme); at != std::string_view::npos; at = text.find(kScheme, at)) {
    at += kScheme.size();
    // '?' and '#' end a host, too, but a password that nobody has encoded may have them.
    const std::string_view host = text.substr(at, text.find_first_of("/\"' ", at) - at);
    const size_t sign = host.rfind('@');
    if (sign != std::string_view::npos) copy.mask(at, at + sign);
  }
  return std::move(copy).finish();
}

bool is_quote(char c) {
  return c == '"' || c == '\'';
}

/// The part of `text` behind the separator at `at` that is the value of a name that speaks; empty:
/// there is none. "?token=value&sig=value", "Pwd=value;", {"password": "value"}.
std::string_view secret_value(std::string_view text, size_t at, NextOf& value_end,
                              NextOf& header_end) {
  size_t name_end = at;
  const bool is_quoted = name_end > 0 && is_quote(text[name_end - 1]);
  if (is_quoted) --name_end;
  size_t name_begin = name_end;
  const auto is_of_name = [](char c) {
    const bool is_ascii = static_cast<unsigned char>(c) < 0x80;
    return is_alnum(c) || c == '_' || c == '-' || c == '.' || !is_ascii;
  };
  while (name_begin > 0 && is_of_name(text[name_begin - 1]))
    --name_begin;
  const std::string_view name = text.substr(name_begin, name_end - name_begin);
  size_t begin = at + 1;
  if (text[at] == ':') begin = std::min(text.find_first_not_of(' ', begin), text.size());
  const bool is_in_quotes = begin < text.size() && is_quote(text[begin]);
  const bool is_header = text[at] == ':' && !is_quoted;
  size_t end = 0;
  if (is_in_quotes) {
    end = std::min(text.find(text[begin], begin + 1), text.size());
    ++begin;
  } else {
    end = (is_header ? header_end : value_end).from(begin);
  }
  const std::string_view value = text.substr(begin, end - begin);
  const bool hides = is_header ? is_secret_header(name) : is_secret(name, value);
  return hides ? value : std::string_view();
}

/// Masks each value whose name speaks.
std::string mask_pairs(std::string_view text) {
  MaskedCopy copy(text);
  NextOf value_end(text, "&;, \t\n\"'}");
  NextOf header_end(text, "\n\"'");
  for (size_t i = 0; i < text.size(); ++i) {
    if (i < copy.copied() || (text[i] != '=' && text[i] != ':')) continue;
    const std::string_view value = secret_value(text, i, value_end, header_end);
    if (value.empty()) continue;
    const auto begin = static_cast<size_t>(value.data() - text.data());
    copy.mask(begin, begin + value.size());
  }
  return std::move(copy).finish();
}

/// What stands behind the addresses of these services is the right to use them.
std::string mask_webhooks(std::string text) {
  for (const std::string_view service :
       {"hooks.slack.com/services/", "discord.com/api/webhooks/"}) {
    MaskedCopy copy(text);
    NextOf end(text, " \"'");
    for (size_t at = text.find(service); at != std::string::npos; at = text.find(service, at)) {
      at += service.size();
      copy.mask(at, end.from(at));
      at = copy.copied();
    }
    text = std::move(copy).finish();
  }
  return text;
}

/// "--name=value", "name=value", "--header Authorization: value".
std::string mask_argument(const std::string& argument) {
  const size_t separator = argument.find_first_of("=:");
  const bool is_url = separator != std::string::npos && argument.compare(separator, 3, "://") == 0;
  if (separator != std::string::npos && !is_url && separator + 1 < argument.size()) {
    const std::string_view name = std::string_view(argument).substr(0, separator);
    const std::string_view value = std::string_view(argument).substr(separator + 1);
    const bool hides = argument[separator] == ':' ? is_secret_header(name) : is_secret(name, value);
    // The name may be the last word of a line: "echo TOKEN; export API_KEY=value".
    if (hides)
      return mask_words(mask_webhooks(argument.substr(0, separator + 1))) + std::string(kMasked);
  }
  return mask_words(mask_pairs(mask_webhooks(mask_url_users(argument))));
}

/// An option whose value may be the next argument.
bool may_have_value(std::string_view argument) {
  // "--token:" is what an error text says of the option.
  return argument.starts_with('-') && !argument.contains('=') && !argument.ends_with(':');
}

/// A program that takes a password by an option of one letter, which elsewhere is a port or a path.
struct Client {
  std::string_view program;
  std::string_view option;
  std::string_view subcommand;  ///< that has the option; empty: the program itself
  bool is_separate;             ///< the password may be the next word: else it is attached alone
};

constexpr auto kClients = std::to_array<Client>({
    {"mysql", "-p", "", false},        {"mysqldump", "-p", "", false},
    {"mysqladmin", "-p", "", false},   {"mysqlimport", "-p", "", false},
    {"mysqlcheck", "-p", "", false},   {"mariadb", "-p", "", false},
    {"mariadb-dump", "-p", "", false}, {"mariadb-admin", "-p", "", false},
    {"7z", "-p", "", false},           {"7za", "-p", "", false},
    {"7zr", "-p", "", false},          {"sshpass", "-p", "", true},
    {"redis-cli", "-a", "", true},     {"mongo", "-p", "", true},
    {"mongosh", "-p", "", true},       {"mongodump", "-p", "", true},
    {"mongorestore", "-p", "", true},  {"mongoexport", "-p", "", true},
    {"mongoimport", "-p", "", true},   {"cqlsh", "-p", "", true},
    {"beeline", "-p", "", true},       {"rabbitmqadmin", "-p", "", true},
    {"ldapsearch", "-w", "", true},    {"ldapadd", "-w", "", true},
    {"ldapmodify", "-w", "", true},    {"ldapwhoami", "-w", "", true},
    {"sqlcmd", "-P", "", true},        {"bcp", "-P", "", true},
    {"zip", "-P", "", true},           {"unzip", "-P", "", true},
    {"ipmitool", "-P", "", true},      {"mosquitto_pub", "-P", "", true},
    {"mosquitto_sub", "-P", "", true}, {"docker", "-p", "login", true},
    {"podman", "-p", "login", true},   {"nerdctl", "-p", "login", true},
    {"skopeo", "-p", "login", true},   {"buildah", "-p", "login", true},
    {"helm", "-p", "login", true},     {"az", "-p", "login", true},
});

/// Masks words by what stands before them in their command line.
class LineMasker {
 public:
  /// The word without its secret, where its place says that it has one.
  std::optional<std::string> next(std::string_view word);

 private:
  std::optional<std::string> masked_of_client(std::string_view word);

  std::string option_;  ///< before the word; empty: none
  bool hide_ = false;   ///< the word is a client's password
  bool follows_user_ = false;
  const Client* client_ = nullptr;
  bool has_subcommand_ = false;
};

std::optional<std::string> LineMasker::masked_of_client(std::string_view word) {
  const auto found = std::ranges::find(kClients, base_name(word), &Client::program);
  if (found != kClients.end()) {
    client_ = &*found;
    has_subcommand_ = client_->subcommand.empty();
    return std::nullopt;
  }
  if (client_ == nullptr) return std::nullopt;
  has_subcommand_ = has_subcommand_ || word == client_->subcommand;
  if (!has_subcommand_ || !word.starts_with(client_->option)) return std::nullopt;
  const std::string_view attached = word.substr(client_->option.size());
  hide_ = hide_ || (attached.empty() && client_->is_separate);
  if (attached.empty()) return std::nullopt;
  return std::string(client_->option) + std::string(kMasked);
}

std::optional<std::string> LineMasker::next(std::string_view word) {
  const bool is_value =
      !word.starts_with("--") && (hide_ || (!option_.empty() && is_secret(option_, word)));
  // curl -u name:password
  const size_t colon = follows_user_ ? word.find(':') : std::string_view::npos;
  hide_ = false;
  option_ = may_have_value(word) ? word : std::string_view();
  follows_user_ = word == "-u" || word == "--user" || word == "--proxy-user";
  if (is_value) {
    option_.clear();
    return std::string(kMasked);
  }
  if (colon != std::string_view::npos)
    return std::string(word.substr(0, colon + 1)) + std::string(kMasked);
  return masked_of_client(word);
}

/// "bash -c 'mysql -pSECRET'": an argument may be a command line itself, or a program that has one
/// or its words: run("mysql -pSECRET"), ["train", "--password", "x"].
std::string mask_line(std::string_view line, int depth = 0) {
  constexpr std::string_view kBetween = " \t\r\n()[],";
  constexpr int kDeepest = 4;
  std::string result;
  LineMasker masker;
  while (!line.empty()) {
    if (kBetween.contains(line.front())) {
      result += line.front();
      line.remove_prefix(1);
      continue;
    }
    const size_t close =
        is_quote(line.front()) ? line.find(line.front(), 1) : std::string_view::npos;
    const bool is_quoted = close != std::string_view::npos;
    const std::string_view quote = line.substr(0, is_quoted ? 1 : 0);
    const std::string_view word =
        is_quoted ? line.substr(1, close - 1) : line.substr(0, line.find_first_of(kBetween, 1));
    result += quote;
    if (const auto hidden = masker.next(word)) {
      result += *hidden;
    } else if (is_quoted && word.contains(' ') && depth < kDeepest) {
      result += mask_line(word, depth + 1);
    } else {
      result += word;
    }
    result += quote;
    line.remove_prefix(word.size() + 2 * quote.size());
  }
  return result;
}

}  // namespace

std::vector<std::string> mask_secrets(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  masked.reserve(arguments.size());
  LineMasker masker;
  for (const std::string& argument : arguments) {
    const std::optional<std::string> hidden = masker.next(argument);
    masked.push_back(
        hidden ? *hidden : mask_argument(argument.contains(' ') ? mask_line(argument) : argument));
  }
  return masked;
}

std::optional<std::string> mask_tokens(std::string_view text) {
  bool is_changed = false;
  std::string masked = change_words(text, [&](std::string_view word) {
    const auto at = find_token(word);
    is_changed = is_changed || at;
    return at ? std::string(word.substr(0, *at)) + std::string(kMasked) : std::string(word);
  });
  if (!is_changed) return std::nullopt;
  return masked;
}

}  // namespace dlprobe
