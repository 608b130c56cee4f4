#include "reports/redact/harmless.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <set>
#include <string>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/base/secrets.h"
#include "lib/foreign/libraries.h"
#include "lib/foreign/python_code.h"
#include "lib/foreign/syscalls.h"
#include "lib/model/finding.h"
#include "reports/model/report.h"
#include "reports/model/shape.h"

namespace dlprobe {
namespace {

using WordSet = std::set<std::string, std::less<>>;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

std::string_view without_marks(std::string_view word, std::string_view marks) {
  word.remove_prefix(std::min(word.find_first_not_of(marks), word.size()));
  return word.substr(0, word.find_last_not_of(marks) + 1);
}

/// The words of dlprobe's schema, findings and pages, and of the kernel's and the C library's error
/// texts and calls; the endings of files among them.
struct Vocabulary {
  WordSet words;
  WordSet endings;
  WordSet values;

  Vocabulary();
  void add(std::string_view text);
  void add_values(const Shape& shape);
};

void Vocabulary::add(std::string_view text) {
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, is_in_word);
    const std::string_view run = text.substr(0, static_cast<size_t>(end - text.begin()));
    const std::string_view word = without_marks(run, ".-");
    if (!word.empty()) words.emplace(word);
    const size_t dot = word.rfind('.');
    if (dot != std::string_view::npos) endings.emplace(word.substr(dot + 1));
    text.remove_prefix(std::max<size_t>(run.size(), 1));
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
void Vocabulary::add_values(const Shape& shape) {
  for (const Scalar& each : shape.allowed) {
    if (const auto* text = std::get_if<std::string_view>(&each)) values.emplace(*text);
  }
  if (shape.item != nullptr) add_values(*shape.item);
  for (const FieldShape& field : shape.fields)
    add_values(*field.shape);
}

Vocabulary::Vocabulary() {
  constexpr int kMostErrors = 134;
  constexpr int64_t kMostCalls = 600;
  add(report_schema());
  for (const FindingInfo& each : all_findings()) {
    add(each.title);
    add(finding_page(each.id));
  }
  for (int number = 1; number < kMostErrors; ++number) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the C locale's texts are constants
    add(strerror(number));
    if (const char* name = strerrorname_np(number)) words.emplace(name);
  }
  for (int64_t number = 0; number < kMostCalls; ++number) {
    if (const Syscall* call = find_syscall(number, "x86_64")) values.emplace(call->name);
  }
  add_values(report_shape());
  for (const std::string_view scope :
       {"<locals>", "<lambda>", "<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})
    values.emplace(scope);
}

const Vocabulary& vocabulary() {
  static const Vocabulary all;
  return all;
}

/// Digits with at most two dots between them (four groups are an address); or a hexadecimal one.
bool is_number(std::string_view text) {
  if (text.starts_with("0x"))
    return text.size() > 2 && std::ranges::all_of(text.substr(2), [](char c) {
             return std::isxdigit(static_cast<unsigned char>(c)) != 0;
           });
  return !text.empty() && is_digit(text.front()) && is_digit(text.back()) &&
         std::ranges::count(text, '.') <= 2 &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || c == '.'; });
}

std::string_view first_component(std::string_view path) {
  return path.substr(0, path.find('/'));
}

/// "python3", "python3.11".
bool is_folder_of_python(std::string_view name) {
  constexpr std::string_view kPython = "python3";
  return name.starts_with(kPython) && std::ranges::all_of(name.substr(kPython.size()), [](char c) {
           return is_digit(c) || c == '.' || c == 't';
         });
}

/// A name that a library makes of numbers, for a segment of shared memory or a semaphore.
bool is_made_name(std::string_view name) {
  constexpr size_t kMostRandom = 8;
  constexpr std::string_view kTorch = "torch_";
  if (name.starts_with(kTorch)) {
    return std::ranges::all_of(name.substr(kTorch.size()),
                               [](char c) { return is_digit(c) || c == '_' || c == '*'; });
  }
  return std::ranges::any_of(
      std::array<std::string_view, 2>{"psm_", "sem.mp-"}, [name](std::string_view maker) {
        return name.starts_with(maker) && name.size() <= maker.size() + kMostRandom;
      });
}

/// Where what Python has installed begins, if anybody may have it; else the end.
size_t public_tail(std::string_view path) {
  const auto library = path_in_library(path);
  if (!library) return path.size();
  const size_t tail = path.size() - library->size();
  const std::string_view folder = base_name(path.substr(0, tail - 1));
  std::string_view module = first_component(*library);
  module = module.substr(0, module.find('.'));
  const auto packages = loader_packages();
  const bool is_known = is_folder_of_python(folder) || is_own_word(module) ||
                        std::ranges::count(packages, module) > 0;
  return is_known ? tail : path.size();
}

/// How many leading components are the system's: of "/dev/shm/x" two, of "/srv/x" one.
size_t system_head(std::string_view path) {
  constexpr auto kWhole = std::to_array<std::string_view>(
      {"bin", "boot", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr"});
  constexpr auto kTop = std::to_array<std::string_view>(
      {"etc", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "var"});
  constexpr auto kWithin =
      std::to_array<std::string_view>({"/usr/local", "/sys/fs/cgroup", "/dev/shm", "/dev"});
  if (!path.starts_with('/')) return 0;
  for (const std::string_view each : kWithin) {
    if (path == each || path.starts_with(std::string(each) + "/")) return each.size();
  }
  const std::string_view top = first_component(path.substr(1));
  if (std::ranges::count(kWhole, top) > 0) return path.size();
  return std::ranges::count(kTop, top) > 0 ? 1 + top.size() : 0;
}

}  // namespace

bool is_own_word(std::string_view word) {
  const WordSet& words = vocabulary().words;
  if (word.empty() || words.contains(word)) return !word.empty();
  // At the beginning of a sentence.
  std::string inside(word);
  inside[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(inside[0])));
  return words.contains(inside);
}

bool is_plain_value(std::string_view word) {
  const std::string_view sign = word.substr(0, word.starts_with('-') ? 1 : 0);
  const std::string_view amount = word.substr(sign.size());
  const size_t digits = std::min(amount.find_first_not_of("0123456789."), amount.size());
  const std::string_view unit = amount.substr(digits);
  const bool is_amount =
      is_number(amount.substr(0, digits)) &&
      (unit.empty() || unit == "%" ||
       (unit.size() <= 3 && std::ranges::none_of(unit, is_digit) && is_own_word(unit)));
  return is_amount || is_number(amount) || word == kMasked || word == "true" || word == "false" ||
         word == "True" || word == "False" || word == "None" || vocabulary().values.contains(word);
}

bool is_plain_path(std::string_view word) {
  return std::ranges::all_of(word, [](char c) { return is_in_word(c) || c == '/' || c == '+'; });
}

std::string_view known_extension(std::string_view name) {
  const std::string_view plain = without_deleted(name);
  size_t dot = plain.rfind('.');
  // The version of a library: "libx.so.1.0".
  while (dot != std::string_view::npos && dot > 0 && is_number(plain.substr(dot + 1)))
    dot = plain.rfind('.', dot - 1);
  if (dot == std::string_view::npos || dot == 0) return name.substr(plain.size());
  std::string_view ending = plain.substr(dot + 1);
  ending = ending.substr(0, ending.find('.'));
  return name.substr(vocabulary().endings.contains(ending) ? dot : plain.size());
}

KeptParts kept_parts(std::string_view path) {
  constexpr std::string_view kPackages = "-packages/";
  KeptParts parts = {.head = system_head(path), .tail = public_tail(path)};
  const std::string_view file = base_name(path);
  const std::string_view ending = known_extension(file);
  const bool is_of_cgroup = path.starts_with("/sys/fs/cgroup/") && !ending.empty() &&
                            is_own_word(file.substr(0, file.size() - ending.size()));
  if (is_of_cgroup) parts.tail = path.size() - file.size();
  // Debian has packages of others in the system's folder.
  const size_t packages = path.find(kPackages);
  if (packages != std::string_view::npos && parts.tail == path.size())
    parts.head = std::min(parts.head, packages + kPackages.size());
  // What a process sees as its root is no system's.
  for (const std::string_view mark : {"/root", "/cwd"}) {
    const size_t at = path.find(std::string(mark) + "/");
    if (path.starts_with("/proc/") && at != std::string_view::npos)
      parts.head = std::min(parts.head, at + mark.size());
  }
  return parts;
}

bool is_of_known_library(std::string_view path) {
  const KeptParts parts = kept_parts(path);
  return parts.head == path.size() || parts.tail < path.size() || path.starts_with("<frozen ");
}

bool is_custom_name(std::string_view name) {
  constexpr auto kCustoms = std::to_array<std::string_view>(
      {"", ".", "..", "bin", "dist-packages", "lib", "lib64", "python", "site-packages"});
  const bool is_library =
      known_extension(name).starts_with(".so") && is_own_word(name.substr(0, name.find('.')));
  return std::ranges::count(kCustoms, name) > 0 || is_folder_of_python(name) ||
         is_made_name(name) || is_library || std::ranges::count(loader_packages(), name) > 0;
}

bool is_version(std::string_view text) {
  const std::string_view number = text.substr(0, text.find('+'));
  std::string_view build = text.substr(number.size());
  if (build.starts_with("+cu")) build.remove_prefix(3);
  const auto is_group = [](std::string_view group) {
    const size_t digits = std::min(group.find_first_not_of("0123456789"), group.size());
    const std::string_view stage =
        group.substr(digits, group.find_last_not_of("0123456789") + 1 - digits);
    return digits > 0 && (stage.empty() || stage == "a" || stage == "b" || stage == "rc");
  };
  return number.contains('.') && std::ranges::count(number, '.') <= 2 &&
         std::ranges::all_of(split(number, '.'), is_group) && std::ranges::all_of(build, is_digit);
}

}  // namespace dlprobe
