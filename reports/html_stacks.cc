#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "reports/frame_text.h"
#include "reports/html_parts.h"
#include "reports/markup.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

// What a browser opens at once; the JSON report has all.
constexpr size_t kMostBytes = 1'500'000;
constexpr size_t kMostFrames = 80;

struct Group {
  const Json* process = nullptr;  ///< the first one
  std::string threads;            ///< as HTML
  std::vector<int64_t> pids;
};

std::string frames_of(const Json& thread) {
  std::string out = "<ol class=\"frames\">";
  size_t count = 0;
  for (const Json& frame : items_at(thread, "stack")) {
    if (count++ == kMostFrames) {
      out += "<li>…</li>";
      break;
    }
    const bool is_native = text_at(frame, "kind") == "native";
    out += fmt::format("<li{}>{}</li>", is_native ? " class=\"native\"" : "",
                       escape_html(frame_text(frame)));
  }
  const std::string note = text_at(thread, "stack_note");
  if (count == 0) out += "<li>no stack" + escape_html(note.empty() ? "" : ": " + note) + "</li>";
  return out + "</ol>";
}

// A thread but for its numbers; `key` tells alike ones.
std::string thread_title(const Json& thread) {
  std::string text = text_at(thread, "comm");
  const std::string waits_for = text_at(thread, "waits_for");
  if (!waits_for.empty()) text += ", in " + waits_for;
  return text;
}

std::string threads_of(const Json& process) {
  struct Alike {
    std::string title;
    std::string frames;
    size_t count = 0;
  };
  std::vector<Alike> alike;
  std::map<std::string, size_t> places;
  for (const Json& thread : items_at(process, "threads")) {
    std::string frames = frames_of(thread);
    std::string title = thread_title(thread);
    const auto [place, is_new] = places.try_emplace(without_numbers(title) + frames, alike.size());
    if (is_new) alike.push_back({.title = std::move(title), .frames = std::move(frames)});
    ++alike[place->second].count;
  }
  std::string out;
  for (const Alike& each : alike) {
    out += fmt::format("<h3>{}{}</h3>{}\n", escape_html(each.title),
                       each.count > 1 ? fmt::format(" ({} threads)", each.count) : "", each.frames);
  }
  return out;
}

std::vector<Group> grouped(const Json& processes) {
  std::vector<Group> groups;
  std::map<std::string, size_t> places;
  for (const Json& process : processes) {
    if (items_at(process, "threads").empty()) continue;
    std::string threads = threads_of(process);
    const std::string key = text_at(process, "role") + '\n' + without_numbers(threads);
    const auto [place, is_new] = places.try_emplace(key, groups.size());
    if (is_new) groups.push_back({.process = &process, .threads = std::move(threads)});
    groups[place->second].pids.push_back(integer_at(process, "pid"));
  }
  return groups;
}

}  // namespace

std::string html_stacks(const Json& report) {
  std::string out;
  size_t left_out = 0;
  for (const Group& group : grouped(items_at(report, "processes"))) {
    if (out.size() + group.threads.size() > kMostBytes) {
      ++left_out;
      continue;
    }
    const std::string activity = text_at(*group.process, "activity");
    out += fmt::format("<details><summary>{} {}: {}{}</summary>\n{}</details>\n",
                       html_at(*group.process, "role"), escape_html(ranges_text(group.pids)),
                       counted(items_at(*group.process, "threads").size(), "thread"),
                       activity.empty() ? "" : ", " + escape_html(activity), group.threads);
  }
  if (left_out > 0) {
    out += fmt::format("<p class=\"quiet\">{} more are in the JSON report.</p>\n",
                       counted(left_out, "other group"));
  }
  return out;
}

}  // namespace dlprobe
