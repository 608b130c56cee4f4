#include "reports/document/frame_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "lib/base/path_name.h"
#include "lib/foreign/python_code.h"

namespace dlprobe {
namespace {

// A module's path from its package on, as `import` has it: the folders before it say little.
std::string_view short_path(std::string_view path, bool is_python) {
  if (!is_python) return base_name(path);
  return path_in_library(path).value_or(path);
}

bool is_python(const Json& frame) {
  return text_at(frame, "kind") == "python";
}

std::string file_text(const Json& frame, bool whole) {
  const std::string path = text_at(frame, "file");
  std::string text(whole ? std::string_view(path) : short_path(path, is_python(frame)));
  if (const auto line = number_at(frame, "line")) text += fmt::format(":{:.0f}", *line);
  return text;
}

std::string name_text(const Json& frame) {
  const std::string name = text_at(frame, "name");
  return name.empty() ? text_at(frame, "function") : name;
}

}  // namespace

std::string frame_text(const Json& frame, bool whole) {
  if (!frame.is_object()) return "";
  const std::string name = name_text(frame);
  std::string file = file_text(frame, whole);
  const auto offset = number_at(frame, "offset");
  if (offset && (name.empty() || whole)) {
    file += fmt::format("{}{:#x}", file.empty() ? "" : "+", static_cast<uint64_t>(*offset));
  }
  if (name.empty() && file.empty()) return "";
  return fmt::format("{} ({})", name.empty() ? "??" : name, file.empty() ? "no file" : file);
}

std::string place_text(const Json& frame) {
  if (!frame.is_object()) return "";
  const std::string name = name_text(frame);
  const std::string file = file_text(frame, false);
  if (file.empty() || name.empty()) return file + name;
  return fmt::format("{} in {}", file, name);
}

std::string pause_text(const Json& process) {
  const double pause = number_at(process, "pause_s").value_or(0);
  return pause > 0 ? fmt::format("{:.2f} ms", pause * 1e3) : "";
}

int role_rank(std::string_view role) {
  if (role == "trainer") return 0;
  return role == "worker" ? 1 : 2;
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

std::string ranges_text(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
      ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    // A range of two is no shorter than its ends.
    if (last == i + 1) text += ", " + std::to_string(numbers[last]);
    if (last > i + 1) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace dlprobe
