#include "lib/base/function_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

/// Longer ones are left as they are: the time to demangle a name made to that end has no bound.
constexpr size_t kLongestSymbol = 16 << 10;
/// Stands for a blank that is part of a name, as in "operator new".
constexpr char kNameBlank = '\x01';

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// "foo@@GLIBC_2.34" as some symbol tables have it: the name alone.
std::string_view without_version(std::string_view symbol) {
  const size_t at = symbol.find('@', 1);
  return at == std::string_view::npos ? symbol : symbol.substr(0, at);
}

/// The length of the operator that `text` begins with, behind the word "operator".
size_t operator_length(std::string_view text) {
  constexpr std::array<std::string_view, 12> kLongFirst = {"<=>", "<<=", ">>=", "->*", "()", "[]",
                                                           "->",  "<<",  ">>",  "<=",  ">=", "&&"};
  for (const std::string_view each : kLongFirst) {
    if (text.starts_with(each)) return each.size();
  }
  // What is left ends before the parameters or the template arguments.
  return std::min(text.find_first_of("(< ", 1), text.size());
}

/// Writes the short form of a demangled C++ name.
class Shortener {
 public:
  explicit Shortener(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size() && !ended_)
      step();
    std::ranges::replace(name_, kNameBlank, ' ');
    for (const std::string_view space : {"std::__cxx11::", "std::__1::"})
      replace_all(name_, space, "std::");
    replace_all(name_, "std::basic_string<>", "std::string");
    return std::move(name_);
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }

  bool at_operator() const {
    constexpr std::string_view kWord = "operator";
    if (!rest().starts_with(kWord) || (at_ > 0 && is_word(text_[at_ - 1]))) return false;
    return at_ + kWord.size() < text_.size() && !is_word(text_[at_ + kWord.size()]);
  }

  void step() {
    constexpr std::string_view kAnonymous = "(anonymous namespace)";
    const char c = text_[at_];
    if (at_operator()) {
      copy_operator();
    } else if (rest().starts_with(kAnonymous)) {
      name_ += "(anonymous";
      name_ += kNameBlank;
      name_ += "namespace)";
      at_ += kAnonymous.size();
    } else if (c == '<') {
      skip_bracket('<', '>');
      name_ += "<>";
    } else if (c == '[') {
      skip_bracket('[', ']');  // [abi:cxx11]
    } else if (c == '{') {
      copy_unnamed();
    } else if (c == '(') {
      skip_bracket('(', ')');
      end_unless_scope();
    } else if (c == ' ') {
      name_.clear();  // what came before is a return type, or "non-virtual thunk to"
      ++at_;
    } else {
      name_ += c;
      ++at_;
    }
  }

  void copy_operator() {
    constexpr std::string_view kWord = "operator";
    name_ += kWord;
    at_ += kWord.size();
    if (text_[at_] != ' ') {
      const size_t length = operator_length(rest());
      name_ += rest().substr(0, length);
      at_ += length;
      if (rest().starts_with(" <")) ++at_;  // "operator< <int>"
      if (rest().starts_with('<')) skip_bracket('<', '>');
      return;
    }
    // new, delete, "" _suffix, or the type that a conversion leads to.
    while (at_ < text_.size() && text_[at_] != '(') {
      if (text_[at_] == '<') {
        skip_bracket('<', '>');
        name_ += "<>";
        continue;
      }
      name_ += text_[at_] == ' ' ? kNameBlank : text_[at_];
      ++at_;
    }
  }

  /// {lambda(int)#1} is {lambda}, {unnamed type#1} {unnamed type}.
  void copy_unnamed() {
    const size_t begin = at_;
    skip_bracket('{', '}');
    const std::string_view whole = text_.substr(begin, at_ - begin);
    for (const char c : whole.substr(0, whole.find_first_of("(#}")))
      name_ += c == ' ' ? kNameBlank : c;
    name_ += '}';
  }

  /// To behind the bracket that closes the one at at_. In "<>" an arrow or an operator's name
  /// closes nothing, and the demangler puts expressions with > in parentheses.
  void skip_bracket(char open, char close) {
    constexpr std::string_view kWord = "operator";
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (at_operator()) {
        at_ += kWord.size();
        at_ += text_[at_] == ' ' ? 1 : operator_length(rest());
        continue;
      }
      if (open == '<' && c == '(') {
        skip_bracket('(', ')');
        continue;
      }
      if (open == '<' && rest().starts_with("->")) {
        at_ += 2;
        continue;
      }
      ++at_;
      if (c == open) ++depth;
      if (c == close && --depth == 0) return;
    }
  }

  /// Behind parameters: a scope goes on ("f(int) const::{lambda()#1}"), anything else is no name.
  void end_unless_scope() {
    const size_t scope = text_.find("::", at_);
    const std::string_view between =
        text_.substr(at_, scope == std::string_view::npos ? std::string_view::npos : scope - at_);
    constexpr std::array<std::string_view, 5> kQualifiers = {"", " const", " volatile", " &",
                                                             " &&"};
    const bool goes_on = scope != std::string_view::npos &&
                         (std::ranges::find(kQualifiers, between) != kQualifiers.end() ||
                          between.starts_with("[abi:"));
    ended_ = !goes_on;
    if (goes_on) at_ = scope;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string name_;
  bool ended_ = false;
};

/// What the C++ demangler makes of it; nothing for a symbol that is not mangled.
std::optional<std::string> demangle(std::string_view symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > kLongestSymbol) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return std::nullopt;
  return std::string(text.get());
}

/// The legacy mangling of Rust looks like C++, with a hash as the last part.
bool is_rust(std::string_view name) {
  constexpr size_t kHash = 16;
  constexpr std::string_view kBefore = "::h";
  if (name.size() <= kHash + kBefore.size()) return false;
  const std::string_view hash = name.substr(name.size() - kHash);
  return name.substr(0, name.size() - kHash).ends_with(kBefore) &&
         hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Without the hash, the characters that a C++ name cannot have put back
/// (rustc: compiler/rustc_symbol_mangling/src/legacy.rs).
std::string rust_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kEscapes = {{
      {"_$", "$"},
      {"$SP$", "@"},
      {"$BP$", "*"},
      {"$RF$", "&"},
      {"$LT$", "<"},
      {"$GT$", ">"},
      {"$LP$", "("},
      {"$RP$", ")"},
      {"$C$", ","},
  }};
  std::string text(name.substr(0, name.rfind("::h")));
  for (const auto& [escape, character] : kEscapes)
    replace_all(text, escape, character);
  for (size_t at = text.find("$u"); at != std::string::npos; at = text.find("$u", at + 1)) {
    const size_t end = text.find('$', at + 1);
    if (end == std::string::npos) break;
    const auto code = parse_int<uint8_t>(std::string_view(text).substr(at + 2, end - at - 2), 16);
    if (code && *code >= ' ' && *code < 0x7F) {
      text.replace(at, end - at + 1, 1, static_cast<char>(*code));
    }
  }
  replace_all(text, "..", "::");
  return text;
}

/// "<polars::Frame<T> as core::Clone>::clone" is "polars::Frame<>::clone".
std::string short_rust_name(std::string_view name) {
  std::string result;
  int depth = 0;
  bool first_type = name.starts_with('<');  // <T as Trait>: T is what the function belongs to
  const int shown = first_type ? 1 : 0;
  if (first_type) name.remove_prefix(1), depth = 1;
  bool in_trait = false;
  for (size_t at = 0; at < name.size(); ++at) {
    const char c = name[at];
    const bool is_arrow = c == '>' && at > 0 && name[at - 1] == '-';
    if (first_type && depth == shown && name.substr(at).starts_with(" as ")) in_trait = true;
    if (c == '>' && !is_arrow && --depth == 0 && first_type) {
      first_type = in_trait = false;
      continue;
    }
    const bool is_shown = depth == (first_type ? shown : 0) && !in_trait;
    if (c == '<') {
      if (is_shown) result += "<>";
      ++depth;
    } else if (is_shown && c != '>') {
      result += c;
    }
  }
  return result;
}

/// "foo.constprop.0" is "foo"; "foo._omp_fn.0" is the body of a parallel loop, and stays.
std::string_view without_clone_suffix(std::string_view symbol) {
  for (const std::string_view suffix :
       {".cold", ".part.", ".constprop.", ".isra.", ".lto_priv.", ".llvm."}) {
    const size_t at = symbol.find(suffix, 1);
    if (at != std::string_view::npos) symbol = symbol.substr(0, at);
  }
  return symbol;
}

}  // namespace

std::string short_function_name(std::string_view symbol) {
  symbol = without_version(symbol);
  const auto whole = demangle(symbol);
  if (!whole) return std::string(without_clone_suffix(symbol));
  if (is_rust(*whole)) return short_rust_name(rust_name(*whole));
  const std::string name = Shortener(*whole).run();
  return name.empty() ? *whole : name;
}

}  // namespace dlprobe
