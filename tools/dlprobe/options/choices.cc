#include "tools/dlprobe/options/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "lib/base/parse.h"
#include "lib/base/suggest.h"

namespace dlprobe {
namespace {

// CLI11 keeps of a validator what it is to be called in --help, and nothing else that can be asked
// for later: "TEXT:{a,b}" of a choice, "INT:[0 to 9]" of a number.
std::string described(const std::vector<std::string>& names) {
  return fmt::format("{{{}}}", fmt::join(names, ","));
}

// What stands between ":" with the one bracket and the other bracket at the end.
std::string inside(const std::string& type, std::string_view open, char close) {
  const size_t begin = type.find(open);
  if (begin == std::string::npos || type.back() != close) return "";
  const size_t first = begin + open.size();
  return type.substr(first, type.size() - 1 - first);
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string description = described(names);
  return {[names = std::move(names)](const std::string& text) {
            if (std::ranges::find(names, text) != names.end()) return std::string();
            return fmt::format("'{}' is none of {}{}", text, fmt::join(names, ", "),
                               did_you_mean(text, names));
          },
          description};
}

CLI::Validator offering(const std::vector<std::string>& names) {
  return CLI::Validator(described(names));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string list = inside(option.get_type_name(), ":{", '}');
  std::vector<std::string> names;
  if (list.empty()) return names;
  for (const std::string_view name : split(list, ','))
    names.emplace_back(name);
  return names;
}

std::string bounds_of(const CLI::Option& option) {
  return inside(option.get_type_name(), ":[", ']');
}

std::string value_name_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, std::min(type.find(":{"), type.find(":[")));
}

}  // namespace dlprobe
