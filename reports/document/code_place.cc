#include "reports/document/code_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "reports/document/text_layout.h"

namespace dlprobe {
namespace {

std::string below_folder(std::string path, const std::string& folder) {
  if (!folder.empty() && folder != "/" && path.starts_with(folder + "/"))
    path.erase(0, folder.size() + 1);
  while (path.starts_with("./"))
    path.erase(0, 2);
  return path;
}

// What was examined: of "python -u train.py --epochs 3" the program, else the command itself.
std::string program_of(const Json& report) {
  const Json& command = items_at(object_at(report, "subject"), "command");
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string argument = value_with_unit(command[i], "");
    if (argument == "-m" || argument == "-c") break;
    if (!argument.starts_with("-")) return argument;
  }
  if (!command.empty()) return value_with_unit(command.front(), "");
  const std::string comm = text_at(object_at(report, "subject"), "trainer_comm");
  return comm.empty() ? "dlprobe" : comm;
}

}  // namespace

CodePlace code_place(const Json& report, const Json& finding) {
  const std::string folder = text_at(object_at(report, "invocation"), "working_folder");
  const Json& places = items_at(finding, "locations");
  if (places.empty() || text_at(places.front(), "path").empty()) {
    return {.path = below_folder(program_of(report), folder), .what = {}};
  }
  const Json& first = places.front();
  return {.path = below_folder(text_at(first, "path"), folder),
          .line = std::max<int64_t>(integer_at(first, "line"), 1),
          .what = text_at(first, "what"),
          .is_known = true};
}

std::string uri_of(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string uri = path.starts_with("/") ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte < 0x80 && std::isalnum(byte) != 0) || kPlain.contains(c);
    if (is_plain) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", byte);
    }
  }
  return uri;
}

}  // namespace dlprobe
