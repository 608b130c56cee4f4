// One page for the person who was asleep: the verdict, the cause, the proof and what to do first;
// then what happened when, who waited for whom, and what could not be seen.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/units.h"
#include "reports/format.h"
#include "reports/frame_text.h"
#include "reports/html_parts.h"
#include "reports/markup.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

constexpr size_t kMostProcesses = 500;
constexpr int kDeepestIndent = 4;

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string cells(std::initializer_list<std::string> texts) {
  std::string out = "<tr>";
  for (const std::string& text : texts)
    out += "<td>" + text + "</td>";
  return out + "</tr>\n";
}

std::string table(std::initializer_list<std::string_view> heads, const std::string& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (const std::string_view head : heads)
    out += fmt::format("<th scope=\"col\">{}</th>", head);
  return out + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string evidence_table(const Json& finding) {
  std::string rows;
  for (const Json& fact : items_at(finding, "evidence")) {
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    std::string source = html_at(fact, "source");
    const std::string at = html_at(fact, "seen_at");
    if (!at.empty()) source += fmt::format(R"( <time class="quiet" datetime="{0}">{0}</time>)", at);
    std::string held =
        "<code>" + escape_html(value_with_unit(value, text_at(fact, "unit"))) + "</code>";
    const std::string threshold = html_at(fact, "threshold");
    if (!threshold.empty()) held += " (" + threshold + ")";
    rows += cells({html_at(fact, "name"), held, source});
  }
  if (rows.empty()) return "";
  return "<h4>Proof</h4>\n" + table({"Fact", "Value", "Source"}, rows);
}

std::string remedy(const Json& each) {
  std::string places;
  for (const Json& place : items_at(each, "applies_to"))
    places += (places.empty() ? "" : ", ") + value_with_unit(place, "");
  std::string out = "<li>" + html_at(each, "title");
  if (!places.empty()) out += " <span class=\"quiet\">(" + escape_html(places) + ")</span>";
  std::string commands;
  for (const Json& command : items_at(each, "commands"))
    commands += escape_html(value_with_unit(command, "")) + "\n";
  if (!commands.empty()) out += "<pre>" + commands + "</pre>";
  const std::string verify = html_at(each, "verify");
  if (!verify.empty()) out += "<p class=\"quiet\">Check with <code>" + verify + "</code></p>";
  const std::string confirmed = html_at(object_at(each, "confirmed"), "text");
  if (!confirmed.empty()) out += "<p><strong>" + confirmed + "</strong></p>";
  return out + "</li>\n";
}

std::string remedies(const Json& finding) {
  std::string items;
  for (const Json& each : items_at(finding, "remediation"))
    items += remedy(each);
  return items.empty() ? "" : "<h4>What to do</h4>\n<ol>\n" + items + "</ol>\n";
}

std::string ruled_out(const Json& finding) {
  std::string items;
  for (const Json& each : items_at(finding, "alternatives")) {
    items += fmt::format("<li><strong>{}</strong>: {}</li>\n", html_at(each, "cause"),
                         html_at(each, "why_not"));
  }
  return items.empty() ? "" : "<h4>Ruled out</h4>\n<ul class=\"plain\">\n" + items + "</ul>\n";
}

std::string locations(const Json& finding) {
  std::string items;
  for (const Json& place : items_at(finding, "locations")) {
    const auto line = number_at(place, "line");
    items += fmt::format("<li><code>{}{}</code> {}</li>\n", html_at(place, "path"),
                         line ? fmt::format(":{:.0f}", *line) : "", html_at(place, "what"));
  }
  return items.empty() ? "" : "<ul class=\"plain\">\n" + items + "</ul>\n";
}

std::string finding_card(const Json& finding, size_t index, std::string_view headline) {
  const std::string severity = html_at(finding, "severity");
  const std::string consequence = html_at(finding, "consequence_of");
  std::string out = fmt::format(
      "<article class=\"card\" id=\"finding-{0}\">\n<h3>{0}. {1} {2}</h3>\n<p><strong "
      "class=\"{3}\">{3}"
      "</strong>, {4}{5}. {6}.</p>\n",
      index + 1, html_at(finding, "code"), html_at(finding, "name"), severity,
      html_at(finding, "confidence"),
      consequence.empty() ? "" : ", a consequence of " + consequence, html_at(finding, "title"));
  // The heading of the page has said it already.
  if (!headline.ends_with(text_at(finding, "message")))
    out += "<p>" + html_at(finding, "message") + "</p>\n";
  const std::string nodes = html_at(finding, "nodes");
  if (!nodes.empty()) out += "<p>On " + nodes + "</p>\n";
  out += locations(finding) + remedies(finding) + evidence_table(finding) + ruled_out(finding);
  return out + "</article>\n";
}

std::string findings(const Json& report) {
  const std::string headline = text_at(object_at(report, "summary"), "headline");
  const Json& all = items_at(report, "findings");
  std::string out;
  for (size_t i = 0; i < all.size(); ++i)
    out += finding_card(all[i], i, headline);
  return out;
}

std::string nodes(const Json& report) {
  std::string rows;
  for (const Json& node : items_at(report, "nodes")) {
    const std::string verdict = html_at(node, "verdict");
    rows += cells({html_at(node, "node"), html_at(node, "rank"),
                   fmt::format("<span class=\"{0}\">{0}</span>", verdict),
                   html_at(node, "headline"), html_at(node, "source")});
  }
  for (const Json& name : items_at(report, "missing")) {
    rows += cells({escape_html(value_with_unit(name, "")), "",
                   "<span class=\"incomplete\">missing</span>", "it has said nothing", ""});
  }
  for (const Json& each : items_at(report, "damaged")) {
    rows += cells({"", "", "<span class=\"incomplete\">damaged</span>", html_at(each, "why"),
                   html_at(each, "source")});
  }
  return rows.empty() ? "" : table({"Node", "Rank", "Verdict", "Headline", "Report"}, rows);
}

// Each process under the one that started it, where that is in the report.
class ProcessTable {
 public:
  explicit ProcessTable(const Json& processes) : processes_(processes) {
    std::set<RunAndPid> pids;
    for (const Json& process : processes)
      pids.insert(key(process, "pid"));
    for (size_t i = 0; i < processes.size(); ++i) {
      const RunAndPid parent = key(processes[i], "ppid");
      children_[parent].push_back(i);
      if (!pids.contains(parent)) roots_.push_back(i);
    }
  }

  std::string html() {
    for (const size_t root : roots_)
      add(root, 0);
    // What is its own ancestor is in no tree; a report may hold anything.
    for (size_t i = 0; i < processes_.size(); ++i)
      add(i, 0);
    return rows_;
  }

 private:
  using RunAndPid = std::pair<int64_t, int64_t>;

  static RunAndPid key(const Json& process, const char* pid) {
    return {integer_at(process, "run"), integer_at(process, pid)};
  }

  void add(size_t index, int depth) {
    if (shown_.size() >= kMostProcesses || !shown_.insert(index).second) return;
    rows_ += row(processes_[index], depth);
    const auto children = children_.find(key(processes_[index], "pid"));
    if (children == children_.end()) return;
    for (const size_t child : children->second)
      add(child, depth + 1);
  }

  static std::string row(const Json& process, int depth) {
    std::string command;
    for (const Json& word : items_at(process, "cmdline"))
      command += (command.empty() ? "" : " ") + value_with_unit(word, "");
    const std::string ended = html_at(object_at(process, "exit"), "text");
    std::string does = html_at(process, "activity");
    const std::string waits_for = html_at(process, "waits_for");
    if (!waits_for.empty()) does += (does.empty() ? "" : ", ") + waits_for;
    if (!ended.empty()) does = ended;
    const auto fds = number_at(process, "fds_peak");
    return fmt::format(
        "<tr><td class=\"tree-{}\">{} {}</td><td><code title=\"{}\">{}</code></td><td>{}</td><td "
        "class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        std::min(depth, kDeepestIndent), html_at(process, "role"), integer_at(process, "pid"),
        escape_html(command), html_at(process, "comm"), does,
        escape_html(bytes_at(process, "rss_peak_bytes")),
        escape_html(bytes_at(object_at(process, "memory"), "pss_bytes")),
        fds ? fmt::format("{:.0f}", *fds) : "-");
  }

  const Json& processes_;
  std::map<RunAndPid, std::vector<size_t>> children_;
  std::vector<size_t> roots_;
  std::set<size_t> shown_;
  std::string rows_;
};

std::string processes(const Json& report) {
  const Json& all = items_at(report, "processes");
  if (all.empty()) return "";
  return table({"Role and pid", "Name", "What it does, or its end", "RSS at its highest", "PSS",
                "Descriptors"},
               ProcessTable(all).html());
}

std::string checks(const Json& report) {
  std::string rows;
  for (const Json& check : items_at(report, "checks")) {
    const std::string status = html_at(check, "status");
    std::string title = html_at(check, "title");
    const std::string text = html_at(check, "text");
    if (!text.empty()) title += ": " + text;
    rows += cells(
        {fmt::format("<span class=\"{0}\">{0}</span>", status), html_at(check, "code"), title});
  }
  if (rows.empty()) return "";
  return "<details><summary>" + counted(items_at(report, "checks").size(), "check") +
         "</summary>\n" + table({"Result", "Code", "What was looked for"}, rows) + "</details>\n";
}

std::string suppressed(const Json& report) {
  std::string rows;
  for (const Json& finding : items_at(report, "suppressed")) {
    rows += cells({html_at(finding, "code") + " " + html_at(finding, "name"),
                   html_at(finding, "message"), escape_html(suppression_text(finding))});
  }
  return rows.empty() ? "" : table({"Finding", "What was seen", "Why it does not count"}, rows);
}

std::string limitations(const Json& report) {
  std::string items;
  for (const Json& gap : items_at(report, "limitations")) {
    items += "<li><strong>" + html_at(gap, "what") + "</strong>: " + html_at(gap, "why");
    const std::string effect = html_at(gap, "effect");
    if (!effect.empty()) items += ". Because of that: " + effect;
    const std::string remedy_text = html_at(gap, "remedy");
    if (!remedy_text.empty()) items += ". What would help: " + remedy_text;
    items += "</li>\n";
  }
  return items.empty() ? "" : "<ul class=\"plain\">\n" + items + "</ul>\n";
}

void add_facts(std::string& rows, const Json& object, std::string_view prefix) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() || value.is_array() || key.ends_with("_boottime_ns")) continue;
    std::string_view unit;
    if (key.ends_with("_bytes")) unit = "bytes";
    if (key.ends_with("_s")) unit = "s";
    rows += fmt::format("<tr><th scope=\"row\">{}{}</th><td>{}</td></tr>\n", prefix,
                        escape_html(value_with_unit(key, "")),
                        escape_html(value_with_unit(value, unit)));
  }
}

std::string about(const Json& report) {
  std::string rows;
  std::string command;
  for (const Json& word : items_at(object_at(report, "invocation"), "argv"))
    command += (command.empty() ? "" : " ") + value_with_unit(word, "");
  if (!command.empty())
    rows += "<tr><th scope=\"row\">command</th><td><code>" + escape_html(command) +
            "</code></td></tr>\n";
  for (const char* section : {"invocation", "host", "context", "environment", "subject"})
    add_facts(rows, object_at(report, section), std::string(section) + ": ");
  rows += "<tr><th scope=\"row\">report</th><td>" + html_at(report, "report_id") +
          ", schema version " + html_at(report, "schema_version") + "</td></tr>\n";
  return "<details><summary>Machine, invocation, versions</summary>\n<div class=\"scroll\"><table>"
         "<tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

std::string replay(const Json& report) {
  std::string text =
      "<p>The JSON report makes this page again (<code>dlprobe report render report.json -f "
      "html=report.html</code>) and every other format. ";
  if (!items_at(report, "runs").empty()) {
    text +=
        "A recording (<code>--record FILE</code>) can be diagnosed again on any machine: "
        "<code>dlprobe replay FILE</code>. ";
  }
  const Json& all = items_at(report, "findings");
  if (!all.empty()) {
    text += "More on the cause: <code>dlprobe explain " + html_at(all.front(), "code") + "</code>.";
  }
  return text + "</p>\n";
}

struct Section {
  std::string id;
  std::string title;
  std::string body;
};

std::vector<Section> sections_of(const Json& report) {
  std::vector<Section> all = {
      {"cause", "Cause, and what to do", findings(report)},
      {"suppressed", "Suppressed", suppressed(report)},
      {"nodes", "Nodes", nodes(report)},
      {"waits", "Who waits for whom", html_wait_graph(report)},
      {"time", "What happened when", html_timeline(report)},
      {"processes", "Processes", processes(report)},
      {"stacks", "Stacks at the last look, innermost frame first", html_stacks(report)},
      {"unseen", "What could not be seen", limitations(report)},
      {"checks", "What was looked for", checks(report)},
      {"about", "Where and how", about(report)},
      {"again", "To look at it again", replay(report)},
  };
  std::erase_if(all, [](const Section& section) { return section.body.empty(); });
  return all;
}

std::string header(const Json& report) {
  const std::string_view verdict = to_string(verdict_of(report));
  const Json& host = object_at(report, "host");
  const Json& invocation = object_at(report, "invocation");
  const auto seconds = number_at(invocation, "duration_s");
  std::string out = fmt::format(
      "<header>\n<p><span class=\"badge {}\">{}</span></p>\n<h1>{}</h1>\n<p class=\"quiet\">{}",
      verdict, upper(verdict), html_at(object_at(report, "summary"), "headline"),
      html_at(host, "name"));
  const std::string started = html_at(invocation, "started_at");
  if (!started.empty()) out += fmt::format("; <time datetime=\"{0}\">{0}</time>", started);
  if (seconds) out += "; looked for " + escape_html(value_with_unit(*seconds, "s"));
  out += "; dlprobe " + html_at(object_at(report, "tool"), "version") + " " +
         html_at(invocation, "probe");
  return out + "</p>\n</header>\n";
}

}  // namespace

std::string html_at(const Json& object, const char* key) {
  return escape_html(text_at(object, key));
}

std::string render_html(const Json& report) {
  const HtmlAssets& assets = html_assets();
  const std::vector<Section> sections = sections_of(report);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; "
      "script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{}: {}</title>\n<style>",
      assets.style_hash, assets.script_hash, upper(to_string(verdict_of(report))),
      html_at(object_at(report, "summary"), "headline"));
  out += assets.style;
  out += "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the cause</a>\n";
  out += header(report);
  out += "<nav aria-label=\"Sections\"><ul>\n";
  for (const Section& section : sections)
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title);
  out += "</ul></nav>\n<main id=\"main\">\n";
  for (const Section& section : sections) {
    out += fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", section.id,
                       section.title);
    out += section.body + "</section>\n";
  }
  out +=
      "</main>\n<footer><p>Made by dlprobe from its JSON report. Secrets in command lines are "
      "masked; read it before you send it on.</p></footer>\n<script>";
  out += assets.script;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace dlprobe
