#include "lib/subject/told_lines.h"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/base/fields.h"
#include "lib/base/parse.h"
#include "lib/base/secrets.h"

namespace dlprobe {
namespace {

using nlohmann::json;

/// Nothing: no number, or none that T can hold. nlohmann_json converts those as well: 1e300 to
/// anything, 4294967297 to process 1.
template <class T>
std::optional<T> number_in(const json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value.is_number()) return value.get<T>();
  } else if (value.is_number_unsigned()) {
    if (std::in_range<T>(value.get<uint64_t>())) return value.get<T>();
  } else if (value.is_number_integer()) {
    if (std::in_range<T>(value.get<int64_t>())) return value.get<T>();
  }
  return std::nullopt;
}

template <class T>
std::optional<T> optional_number(const json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() ? std::nullopt : number_in<T>(*found);
}

template <class T>
Expected<T> number(const json& line, const std::string& key) {
  const auto value = number_in<T>(line.at(key));
  if (value) return *value;
  return failure(ErrorCode::kMalformed, "its " + key + " is no number of its kind");
}

std::string text_of(const json& line, const char* key) {
  return line.value(key, std::string());
}

// The shim and this program are of one build, so a name that is not known is a fault.
template <class T>
Expected<T> value_named(const json& line, const char* key) {
  const std::string name = text_of(line, key);
  const auto value = from_string<T>(name);
  if (value) return *value;
  return failure(ErrorCode::kMalformed, "a word of the shim in an interpreter: its " +
                                            std::string(key) + " is \"" + name + "\"");
}

// A command line has its arguments each behind a zero byte, as /proc/PID/cmdline.
std::string masked(const json& line, const char* key) {
  const std::string text = text_of(line, key);
  std::vector<std::string> arguments;
  for (const std::string_view argument : split(text, '\0'))
    arguments.emplace_back(argument);
  std::string all;
  for (const std::string& argument : mask_secrets(arguments))
    all += (all.empty() ? "" : " ") + argument;
  return all;
}

// What the reference loader writes by the same list of fields.
template <Listed T>
Expected<T> fields_of(const json& line) {
  T told;
  Status status;
  for_each_field<T>([&](const auto& field) {
    auto& member = told.*field.member;
    const std::string key(field.key);
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (std::is_arithmetic_v<Member>) {
      const auto value = number<Member>(line, key);
      if (value) member = *value;
      if (!value) status = std::unexpected(value.error());
    } else {
      line.at(key).get_to(member);
    }
  });
  if (!status) return std::unexpected(status.error());
  return told;
}

}  // namespace

Expected<StartEvent> parse_start_event(std::string_view text) {
  // nlohmann_json reports a missing or mistyped member by an exception; it ends here.
  try {
    const json line = json::parse(text);
    DLP_TRY(const auto kind, value_named<StartEventKind>(line, "kind"));
    auto cause = StartRefusal::kNone;
    if (line.contains("cause")) {
      DLP_TRY(cause, value_named<StartRefusal>(line, "cause"));
    }
    auto ended = Ended::kNothing;
    if (line.contains("ended")) {
      DLP_TRY(ended, value_named<Ended>(line, "ended"));
    }
    int32_t source_line = 0;
    if (line.contains("line")) {
      DLP_TRY(source_line, number<int32_t>(line, "line"));
    }
    DLP_TRY(const auto at, number<BootNs>(line, "at"));
    DLP_TRY(const auto pid, number<int32_t>(line, "pid"));
    DLP_TRY(const auto start_ticks, number<uint64_t>(line, "start_ticks"));
    return StartEvent{
        .at = at,
        .kind = kind,
        .process = {.pid = pid, .start_ticks = start_ticks},
        .method = text_of(line, "method"),
        .wanted = text_of(line, "wanted"),
        .child_pid = optional_number<int32_t>(line, "child"),
        .cause = cause,
        .message = masked(line, "message"),
        .path = masked(line, "path"),
        .type = text_of(line, "type"),
        .file = text_of(line, "file"),
        .line = source_line,
        .function = text_of(line, "function"),
        .is_main = line.value("main", false),
        .count = optional_number<int64_t>(line, "count"),
        .seconds = optional_number<double>(line, "seconds"),
        .bytes = optional_number<uint64_t>(line, "bytes"),
        .workers = optional_number<int32_t>(line, "workers"),
        .prefetch_factor = optional_number<int32_t>(line, "prefetch_factor"),
        .ended = ended,
        .error_number = optional_number<int32_t>(line, "error_number"),
        .limit = optional_number<uint64_t>(line, "limit"),
        .free_bytes = optional_number<uint64_t>(line, "free_bytes"),
        .free_inodes = optional_number<uint64_t>(line, "free_inodes"),
        .is_temporary = line.value("temporary", false),
        .made_bytes = optional_number<uint64_t>(line, "made_bytes"),
        .raised_in = text_of(line, "raised_in"),
        .chain = mask_secrets(line.value("chain", std::vector<std::string>())),
        .again = text_of(line, "again"),
        .shared_file = text_of(line, "shared"),
        .called_at = masked(line, "called_at"),
        .loader = optional_number<uint64_t>(line, "loader"),
        .digests = line.value("digests", std::vector<std::string>()),
        .different = optional_number<uint64_t>(line, "different"),
    };
  } catch (const json::exception& error) {
    return failure(ErrorCode::kMalformed,
                   "a word of the shim in an interpreter: " + std::string(error.what()));
  }
}

Expected<Record> parse_progress_line(std::string_view text) {
  try {
    const json line = json::parse(text);
    const std::string event = line.at("event");
    if (event == "hello") return fields_of<LoaderHello>(line);
    if (event == "batch") return fields_of<LoaderBatch>(line);
    if (event == "done") return fields_of<LoaderDone>(line);
    if (event == "start") return parse_start_event(text);
    DLP_TRY(const auto at, number<BootNs>(line, "at"));
    return Event{.at = at, .kind = "loader-" + event, .text = as_text(line.value("text", ""))};
  } catch (const json::exception& error) {
    return failure(ErrorCode::kMalformed,
                   "a progress line of the reference loader: " + std::string(error.what()));
  }
}

}  // namespace dlprobe
