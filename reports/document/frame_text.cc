#include "reports/document/frame_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lib/base/path_name.h"
#include "lib/foreign/python_code.h"
#include "reports/document/text_layout.h"

namespace dlprobe {
namespace {

// A module's path from its package on, as `import` has it: the folders before it say little.
std::string_view short_path(std::string_view path, bool is_python) {
  if (!is_python) return base_name(path);
  return path_in_library(path).value_or(path);
}

std::string file_text(const report::Frame& frame, bool whole) {
  const std::string path = shown(frame.file);
  const bool is_python = frame.kind == report::FrameKind::kPython;
  std::string text(whole ? std::string_view(path) : short_path(path, is_python));
  if (frame.line) text += fmt::format(":{}", *frame.line);
  return text;
}

std::string name_text(const report::Frame& frame) {
  const std::string name = shown(frame.name);
  return name.empty() ? shown(frame.function) : name;
}

}  // namespace

std::string frame_text(const report::Frame& frame, bool whole) {
  const std::string name = name_text(frame);
  std::string file = file_text(frame, whole);
  if (frame.offset && (name.empty() || whole))
    file += fmt::format("{}{:#x}", file.empty() ? "" : "+", *frame.offset);
  if (name.empty() && file.empty()) return "";
  return fmt::format("{} ({})", name.empty() ? "??" : name, file.empty() ? "no file" : file);
}

std::string place_text(const std::optional<report::Frame>& frame) {
  if (!frame) return "";
  const std::string name = name_text(*frame);
  const std::string file = file_text(*frame, false);
  if (file.empty() || name.empty()) return file + name;
  return fmt::format("{} in {}", file, name);
}

std::string pause_text(const report::LastLook& look) {
  return look.pause_s > 0 ? fmt::format("{:.2f} ms", look.pause_s * 1e3) : "";
}

std::string process_kind(std::optional<Role> role) {
  return role && *role != Role::kOther ? std::string(to_string(*role)) : "process";
}

std::string process_name(std::optional<Role> role, std::optional<int32_t> rank, int64_t pid) {
  if (!rank) return fmt::format("{} {}", process_kind(role), pid);
  if (role == Role::kTrainer) return fmt::format("rank {} ({})", *rank, pid);
  return fmt::format("rank {}'s {} {}", *rank, process_kind(role), pid);
}

int role_rank(std::optional<Role> role) {
  if (role == Role::kTrainer) return 0;
  return role == Role::kWorker ? 1 : 2;
}

std::string without_numbers(std::string_view text) {
  std::string result;
  bool in_number = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_number = std::isdigit(byte) != 0 || (in_number && std::isxdigit(byte) != 0) ||
                           (in_number && c == 'x');
    if (is_number && !in_number) result += '#';
    if (!is_number) result += c;
    in_number = is_number;
  }
  return result;
}

}  // namespace dlprobe
