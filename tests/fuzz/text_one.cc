#include "tests/fuzz/text_one.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/escape.h"
#include "lib/base/function_name.h"
#include "lib/base/host_list.h"
#include "lib/base/parse.h"
#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"
#include "lib/collect/gate/python_packages.h"
#include "lib/model/loader_fault.h"
#include "lib/os/kernel_events.h"
#include "lib/subject/crash_text.h"
#include "lib/subject/python_command.h"
#include "lib/subject/told_lines.h"
#include "reports/format.h"
#include "reports/merge.h"
#include "reports/model/json.h"
#include "reports/model/report.h"
#include "reports/redact/redact.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tools/dlprobe/config/config_file.h"

namespace dlprobe {
namespace {

constexpr size_t kMostWords = 64;

/// A promise that is broken is a crash to a fuzzer.
void require(bool holds, std::string_view promise) {
  if (holds) return;
  static_cast<void>(
      std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(promise.size()), promise.data()));
  std::abort();
}

/// The lines of `text`, the first ones.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view line : split(text, '\n')) {
    if (words.size() < kMostWords) words.emplace_back(line);
  }
  return words;
}

void read_config(std::string_view text) {
  const auto file = parse_config(text, "f.toml");
  require(file || file.error().context.starts_with("f.toml:"), "an error names its place");
}

/// Nothing that acts on a terminal is left.
void read_names(std::string_view text) {
  const auto acts = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const std::string line = escape_for_terminal(text);
  require(std::ranges::none_of(line, acts) && is_utf8(line), "a line has no control characters");
  require(is_utf8(to_valid_utf8(text)), "what is made valid UTF-8 is");
  static_cast<void>(parse_size(text));
  static_cast<void>(parse_duration(text));
  static_cast<void>(parse_fault(text));
}

/// Of a process that crashed.
void read_crash(std::string_view text) {
  const auto crash = parse_crash(text);
  if (!crash) return;
  const std::string lines = crash->message + crash->file + crash->function + crash->raised_in;
  require(!lines.contains('\n'), "what a crash names is of one line");
  require(crash->file.empty() || crash->count > 0, "a line is that of a frame");
}

void read_function_name(std::string_view text) {
  static_cast<void>(short_function_name(text));
}

/// What is folded unfolds to the same hosts.
void read_host_list(std::string_view text) {
  static_cast<void>(fold_hosts(words_of(text)));
  const auto hosts = expand_hosts(text);
  if (!hosts) return;
  const auto again = expand_hosts(fold_hosts(*hosts));
  require(again.has_value(), "a folded list is a list");
  require(std::set(hosts->begin(), hosts->end()) == std::set(again->begin(), again->end()),
          "a folded list has the same hosts");
}

void read_perf_records(std::string_view text) {
  std::vector<TracepointRecord> records;
  static_cast<void>(parse_perf_records(std::as_bytes(std::span(text)), records));
}

void read_progress_line(std::string_view text) {
  static_cast<void>(parse_progress_line(text));
}

void read_python_command(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  const auto command = parse_python_command(words);
  if (!command) return;
  require(command->interpreter < words.size(), "the interpreter is one of the words");
}

/// As RECORD and top_level.txt of a package, and as what conda says of one.
void read_python_packages(std::string_view text) {
  FakeFiles files;
  const std::string package = "/env/site/torch-2.1.0.dist-info/";
  files.add(package + "RECORD", std::string(text));
  files.add("/env/site/numpy-1.26.4.egg-info/top_level.txt", std::string(text));
  files.add("/env/site/" + std::string(text.substr(0, text.find_first_of("/\n"))) + "/INSTALLER",
            std::string(text));
  files.add("/env/conda-meta/a.json", std::string(text));
  PythonFacts facts;
  const PackageFolders where{
      .folders = {"/env/site"}, .prefix = "/env", .end = std::numeric_limits<BootNs>::max()};
  look_at_packages(files, FakeClock(), where, facts);
}

constexpr std::string_view kToken = "ghp_Q8Zr1Tg5Xw2Lm9Vb4Kc7Np3Sd7Yh2";

/// Each argument with a token behind it, before it and after it: none of them is left.
void read_secrets(std::string_view text) {
  if (text.contains(kToken)) return;  // within a word it is no token
  std::vector<std::string> words = words_of(text);
  const size_t count = words.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string token(kToken);
    words.push_back(words[i] + " " + token);
    words.push_back(token + " " + words[i]);
    words.push_back(token);
  }
  const std::vector<std::string> masked = mask_secrets(words);
  require(masked.size() == words.size(), "masking keeps the number of arguments");
  const auto has_token = [](const std::string& word) { return word.contains(kToken); };
  require(std::ranges::none_of(masked, has_token), "no argument has a token left");
  for (const char before : {'/', '-'}) {
    const auto name = mask_tokens(std::string(text) + before + std::string(kToken));
    require(name && !has_token(*name), "no name of a file has a token left");
  }
}

/// Of a started command's shim, or of the reader of a script: lines.
void read_start_events(std::string_view text) {
  for (const std::string_view line : split(text, '\n'))
    static_cast<void>(parse_start_event(line));
}

/// In every format; those for programs are what they say they are.
void render(const AnyReport& report) {
  for (const ReportFormat& format : report_formats()) {
    const std::string text = format.render(report, {});
    const bool is_json = format.name == "json" || format.name == "jsonl" ||
                         format.name == "sarif" || format.name == "gitlab";
    require(!is_json || Json::accept(text), "a format of JSON is JSON");
    require(is_utf8(text), "a format is UTF-8");
    require(!text.contains('\x1b'), "nothing acts on a terminal");
  }
}

/// As it is read from its JSON again.
std::optional<AnyReport> read_again(const AnyReport& report) {
  auto again = parse_report(render_json(report));
  require(again.has_value(), again ? "" : to_string(again.error()));
  return again ? std::optional(std::move(*again)) : std::nullopt;
}

AnyReport redacted(const AnyReport& report) {
  return Redactor({std::begin(kRedactable), std::end(kRedactable)}).redact(report);
}

/// Rendered, redacted twice, and merged with itself.
void read_report(std::string_view text) {
  static_cast<void>(parse_report(text, WithStacks::kNo));
  const auto report = parse_report(text);
  if (!report) return;
  render(*report);
  const auto once = read_again(redacted(*report));
  if (!once) return;
  static_cast<void>(read_again(redacted(*once)));
  ReportMerger merger({});
  merger.add("a.json", *report);
  merger.add("b.json", *once);
  merger.add_damaged("c.json", std::string(text.substr(0, 64)));
  const AnyReport merged = std::move(merger).finish();
  render(merged);
  static_cast<void>(read_again(redacted(merged)));
}

constexpr std::array<std::pair<std::string_view, void (*)(std::string_view)>, 12> kReaders = {{
    {"config", read_config},
    {"crash", read_crash},
    {"function_name", read_function_name},
    {"host_list", read_host_list},
    {"names", read_names},
    {"perf_records", read_perf_records},
    {"progress_line", read_progress_line},
    {"python_command", read_python_command},
    {"python_packages", read_python_packages},
    {"report", read_report},
    {"secrets", read_secrets},
    {"start_event", read_start_events},
}};

}  // namespace

bool text_one(std::string_view reader, std::string_view text) {
  for (const auto& [name, read] : kReaders) {
    if (name != reader) continue;
    read(text);
    return true;
  }
  return false;
}

}  // namespace dlprobe
