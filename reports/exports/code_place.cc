#include "reports/exports/code_place.h"

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
std::string program_of(const report::Subject& subject) {
  const std::vector<std::string>& command = report::items_of(subject.command);
  for (size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-m" || command[i] == "-c") break;
    if (!command[i].starts_with("-")) return shown(command[i]);
  }
  if (!command.empty()) return shown(command.front());
  const std::string comm = shown(subject.trainer_comm);
  return comm.empty() ? "dlprobe" : comm;
}

std::string below_working_folder(const report::Report& report, std::string path) {
  return below_folder(std::move(path), shown(report.invocation.working_folder));
}

}  // namespace

CodePlace code_place(const report::Report& report, const report::Finding& finding) {
  const std::vector<report::Location>& places = report::items_of(finding.locations);
  if (!places.empty() && !places.front().path.empty()) return code_place(report, places.front());
  return {.path = below_working_folder(report, program_of(report.subject))};
}

CodePlace code_place(const report::Report& report, const report::Location& location) {
  return {.path = below_working_folder(report, shown(location.path)),
          .line = std::max<uint64_t>(location.line.value_or(0), 1),
          .what = shown(location.what),
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
