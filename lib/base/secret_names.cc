#include "lib/base/secret_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "lib/base/lower_case.h"

namespace dlprobe {
namespace {

// Wherever they stand in a name, with other words around them or not: nothing else has them.
constexpr auto kAnywhere = std::to_array<std::string_view>({
    "password",   "passwd",      "passphrase", "passcode",     "passwort",     "kennwort",
    "secret",     "credential",  "apikey",     "authtoken",    "bearer",       "cookie",
    "contrasen",  "contraseñ",   "motdepasse", "mot_de_passe", "mot-de-passe", "senha",
    "wachtwoord", "haslo",       "hasło",      "sifre",        "şifre",        "lozinka",
    "losenord",   "lösenord",    "katasandi",  "kata_sandi",   "kata-sandi",   "parol",
    "пароль",     "парол",       "密码",       "密碼",         "口令",         "パスワード",
    "비밀번호",   "पासवर्ड",      "কূটশব্দ",      "পাসওয়ার্ড",     "كلمة_السر",    "كلمة_المرور",
    "كلمة-السر",  "كلمة-المرور", "mật_khẩu",   "matkhau",      "รหัสผ่าน",       "پاسورڈ",
    "پاس_ورڈ",
});

// As a word of its own.
constexpr auto kWords = std::to_array<std::string_view>(
    {"pwd", "pw", "sig", "signature", "sas", "pass", "token", "key", "cred", "creds", "auth",
     "oauth", "authorization", "authorisation"});

// As the only or the last word: "--pin 1234", but "--pin-memory".
constexpr auto kLastWords = std::to_array<std::string_view>(
    {"pin", "otp", "totp", "cvv", "cvc", "card", "cardno", "iban", "ssn"});

// Of a word that is written together with others: "HFTOKEN", "dbpass".
constexpr auto kEnds =
    std::to_array<std::string_view>({"token", "key", "pass", "auth", "creds", "pwd"});
constexpr auto kNotEnds = std::to_array<std::string_view>(
    {"monkey", "turkey", "hockey", "donkey", "jockey", "hotkey", "keypress", "bypass", "compass",
     "surpass", "trespass", "multipass", "lowpass", "highpass", "bandpass", "encompass"});

// Behind which several are a list of secrets, not a number of pieces: "--api-tokens a,b".
constexpr auto kOwners = std::to_array<std::string_view>(
    {"api", "access", "auth", "secret", "refresh", "bot", "user", "admin", "client", "private"});

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "--aws-secretAccessKey2" as aws, secret, access, key.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_hump = is_upper(c) && i > 0 && is_lower(name[i - 1]);
    const bool parts = std::string_view("-_. :/[]").contains(c) || is_digit(c);
    if ((is_hump || parts) && !words.back().empty()) words.emplace_back();
    if (!parts) words.back() += c;
  }
  if (words.back().empty()) words.pop_back();
  for (std::string& word : words)
    word = lower_case(word);
  return words;
}

bool has_secret_end(std::string_view word) {
  return !is_one_of(kNotEnds, word) &&
         std::ranges::any_of(kEnds, [&](std::string_view end) { return word.ends_with(end); });
}

// A number, a path, or one word in small letters, as a mode or the name of a field is.
bool is_plain(std::string_view value) {
  constexpr size_t kLongestWord = 16;
  constexpr size_t kLongestNumber = 6;
  if (value.contains('/')) return true;
  const auto is_of_number = [](char c) { return is_digit(c) || c == '.' || c == ',' || c == '-'; };
  if (std::ranges::all_of(value, is_of_number)) return value.size() <= kLongestNumber;
  const auto is_of_word = [](char c) { return is_lower(c) || c == '_' || c == '-' || c == '.'; };
  return value.size() <= kLongestWord && std::ranges::all_of(value, is_of_word);
}

// A field's, whose name is the value: "--image-key jpg".
bool is_key_of_field(const std::vector<std::string>& words) {
  constexpr auto kFields = std::to_array<std::string_view>(
      {"image",    "images", "caption", "text",      "label", "labels", "target",
       "data",     "input",  "output",  "sort",      "group", "index",  "join",
       "monitor",  "metric", "loss",    "audio",     "video", "prompt", "answer",
       "question", "column", "feature", "partition", "batch", "dict"});
  return words.size() > 1 && words.back() == "key" && is_one_of(kFields, words[words.size() - 2]);
}

}  // namespace

bool is_secret(std::string_view name, std::string_view value) {
  const std::string lowered = lower_case(name);
  if (lowered.ends_with("error")) return false;  // Python's KeyError tells which
  if (std::ranges::any_of(kAnywhere, [&](std::string_view word) { return lowered.contains(word); }))
    return true;
  const std::vector<std::string> words = words_of(name);
  if (words.empty()) return false;
  const std::string& last = words.back();
  if (is_one_of(kLastWords, last)) return true;
  if (is_one_of(kWords, last) || has_secret_end(last))
    return !is_key_of_field(words) || !is_plain(value);
  const std::string_view owner = words.size() > 1 ? std::string_view(words[words.size() - 2]) : "";
  if (last.ends_with('s') && is_one_of(kWords, last.substr(0, last.size() - 1)) &&
      is_one_of(kOwners, owner))
    return true;
  const bool is_within = std::ranges::any_of(
      words, [](const std::string& word) { return is_one_of(kWords, word) || word == "session"; });
  return is_within && !is_plain(value);
}

bool is_secret_header(std::string_view name) {
  constexpr auto kHeaderEnds =
      std::to_array<std::string_view>({"-key", "_key", "token", "password", "passwd", "secret",
                                       "cookie", "authorization", "-auth", "credentials"});
  // "--token:" is what an error text says of the option.
  if (name.starts_with('-')) return false;
  const std::string lowered = lower_case(name);
  return std::ranges::any_of(kHeaderEnds,
                             [&](std::string_view end) { return lowered.ends_with(end); });
}

}  // namespace dlprobe
