#include "reports/document/markup.h"

#include <algorithm>
#include <cctype>

namespace dlprobe {
namespace {

std::string_view entity_of(char c) {
  if (c == '&') return "&amp;";
  return c == '<' ? "&lt;" : "&gt;";
}

}  // namespace

size_t most_backquotes(std::string_view text) {
  size_t most = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    most = std::max(most, run);
  }
  return most;
}

std::string escape_markdown(std::string_view text) {
  constexpr std::string_view kActive = "\\`*[]|~";
  const auto is_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0);
  };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // Inside of a word it emphasises nothing.
    const bool emphasises = c == '_' && (i == 0 || !is_word(i - 1) || !is_word(i + 1));
    if (c == '\n' || c == '\r') {
      result += ' ';
    } else if (c == '&' || c == '<' || c == '>') {
      result += entity_of(c);
    } else if (text.substr(i).starts_with("://")) {
      result += "&#58;";  // else an address becomes a link
    } else {
      if (emphasises || kActive.contains(c)) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string markdown_code(std::string_view text) {
  if (text.empty()) return "";
  const std::string fence(most_backquotes(text) + 1, '`');
  const bool needs_blank = text.front() == '`' || text.back() == '`';
  const std::string_view blank = needs_blank ? " " : "";
  std::string result = fence;
  result += blank;
  for (const char c : text)
    result += c == '\n' ? ' ' : c;
  result += blank;
  return result + fence;
}

std::string markdown_cell(std::string_view text) {
  std::string result;
  for (const char c : markdown_code(text)) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace dlprobe
