#include "tools/dlprobe/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "lib/base/parse.h"
#include "tools/dlprobe/options/choices.h"

namespace dlprobe {
namespace {

constexpr size_t kScreenLines = 24;
constexpr size_t kWidestName = 24;
constexpr std::string_view kExitCodes =
    "0 pass, 1 finding (see --fail-on), 2 usage, 3 incomplete, 4 bug";
constexpr size_t kMostChoicesShown = 16;  ///< more are a list of their own, as that of findings

/// A row of a list: what is typed, and what it means.
struct Row {
  std::string name;
  std::string what;
};

struct Section {
  std::string title;
  std::vector<Row> rows;
  std::vector<std::string> names;  ///< of the rows: what is left where there is no room
};

size_t lines_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

/// `text` in lines of `columns`, the first behind `lead`, the others behind as many blanks as
/// `indent` says.
std::string wrapped(std::string lead, std::string_view text, size_t indent, size_t columns) {
  std::string out;
  std::string line = std::move(lead);
  bool is_empty = true;
  for (const std::string_view word : split_fields(text)) {
    if (!is_empty && line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return out + line + "\n";
}

std::string row_text(const Row& row, size_t name_columns, size_t columns) {
  constexpr size_t kNarrowest = 20;  // of what a name means, beside it
  constexpr size_t kBelow = 6;
  const bool is_beside = name_columns + 4 + kNarrowest <= columns;
  const size_t indent = is_beside ? name_columns + 4 : kBelow;
  std::string lead = "  " + row.name;
  if (row.what.empty()) return lead + "\n";
  if (!is_beside || row.name.size() > name_columns) {
    return lead + "\n" + wrapped(std::string(indent, ' '), row.what, indent, columns);
  }
  lead.resize(indent, ' ');
  return wrapped(lead, row.what, indent, columns);
}

std::string list_text(const std::vector<Row>& rows, size_t name_columns, size_t columns) {
  std::string text;
  for (const Row& row : rows)
    text += row_text(row, name_columns, columns);
  return text;
}

std::string upper_of_last_word(std::string name) {
  name.erase(0, name.find_last_of('-') + 1);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string default_of(const CLI::Option& option) {
  const std::string& value = option.get_default_str();
  return value.empty() || value == "\"\"" ? "" : "default " + value;
}

/// The description, with what may be given and what is taken if nothing is.
std::string what_of(const CLI::Option& option) {
  std::vector<std::string> notes;
  const auto choices = choices_of(option);
  const std::string all = fmt::format("{}", fmt::join(choices, ", "));
  const bool are_in_label = label_of(option).contains('|');
  if (!choices.empty() && choices.size() <= kMostChoicesShown && !are_in_label) {
    notes.push_back(all);
  }
  if (const std::string bounds = bounds_of(option); !bounds.empty()) notes.push_back(bounds);
  if (const std::string value = default_of(option); !value.empty()) notes.push_back(value);
  std::string text = option.get_description();
  if (!notes.empty()) text += fmt::format(" ({})", fmt::join(notes, "; "));
  return text;
}

std::string typed_name(const CLI::Option& option) {
  std::string text = fmt::format("{}", fmt::join(names_of(option), ", "));
  const std::string label = label_of(option);
  if (label.empty()) return text;
  const bool is_optional = option.get_expected_min() == 0;
  return text + (is_optional ? "[=" + label + "]" : " " + label);
}

bool is_help(const CLI::App& app, const CLI::Option* option) {
  return option == app.get_help_ptr() || option == app.get_help_all_ptr() ||
         option == app.get_version_ptr();
}

Section section_of(const CLI::App& app, const std::string& group) {
  Section section{.title = group};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || is_help(app, option) || option->get_group() != group) continue;
    section.rows.push_back({.name = typed_name(*option), .what = what_of(*option)});
    section.names.push_back(names_of(*option).back());
  }
  return section;
}

Section positionals_of(const CLI::App& app) {
  Section section{.title = "Arguments"};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    section.rows.push_back({.name = label_of(*option), .what = what_of(*option)});
  }
  return section;
}

Section help_of(const CLI::App& app) {
  Section section{.title = "Help"};
  for (const CLI::Option* option :
       {app.get_help_ptr(), app.get_help_all_ptr(), app.get_version_ptr()}) {
    if (option == nullptr) continue;
    section.rows.push_back({.name = typed_name(*option), .what = option->get_description()});
    section.names.push_back(names_of(*option).back());
  }
  return section;
}

bool is_shown(const CLI::App* command) {
  return !command->get_name().empty() && !command->get_group().empty();
}

std::vector<Section> subcommand_sections(const CLI::App& app) {
  std::vector<Section> sections;
  for (const CLI::App* command : app.get_subcommands(is_shown)) {
    auto section = std::ranges::find(sections, command->get_group(), &Section::title);
    if (section == sections.end()) {
      sections.push_back({.title = command->get_group()});
      section = std::prev(sections.end());
    }
    section->rows.push_back({.name = command->get_name(), .what = command->get_description()});
    section->names.push_back(command->get_name());
  }
  return sections;
}

std::vector<Section> sections_of(const CLI::App& app) {
  std::vector<Section> sections = subcommand_sections(app);
  for (const std::string& group : app.get_groups())
    sections.push_back(section_of(app, group));
  sections.push_back(help_of(app));
  std::erase_if(sections, [](const Section& section) { return section.rows.empty(); });
  return sections;
}

std::string usage_of(const CLI::App& app, const std::string& name, size_t columns) {
  std::string text = name;
  if (!app.get_subcommands(is_shown).empty()) text += " SUBCOMMAND";
  text += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool takes_many = option->get_expected_max() > 1;
    const std::string label = label_of(*option) + (takes_many ? "..." : "");
    text += option->get_required() ? " " + label : " [" + label + "]";
  }
  if (takes_command(app)) text += " [-- COMMAND...]";
  return wrapped("Usage: ", text, 7, columns);
}

size_t name_columns(const std::vector<Section>& sections) {
  size_t widest = 0;
  for (const Section& section : sections) {
    for (const Row& row : section.rows) {
      if (row.name.size() <= kWidestName) widest = std::max(widest, row.name.size());
    }
  }
  return widest;
}

std::string examples_text(const CLI::App& app, size_t columns) {
  std::vector<Row> rows;
  size_t widest = 0;
  for_each_line(app.get_footer(), [&](std::string_view line) {
    const size_t tab = std::min(line.find('\t'), line.size());
    rows.push_back({.name = "dlprobe " + std::string(line.substr(0, tab)),
                    .what = std::string(line.substr(std::min(tab + 1, line.size())))});
    widest = std::max(widest, rows.back().name.size());
  });
  return rows.empty() ? "" : "Examples:\n" + list_text(rows, widest, columns);
}

/// The first `count` rows of a section; the others by their names alone.
std::string section_text(const Section& section, size_t count, size_t width, size_t columns) {
  const std::string rows =
      list_text({section.rows.begin(), section.rows.begin() + static_cast<std::ptrdiff_t>(count)},
                width, columns);
  if (count == section.rows.size()) return section.title + ":\n" + rows;
  const std::string names =
      fmt::format("{}", fmt::join(section.names.begin() + static_cast<std::ptrdiff_t>(count),
                                  section.names.end(), " "));
  if (count == 0) return wrapped(section.title + ": ", names, 2, columns);
  return section.title + ":\n" + rows + wrapped("  also: ", names, 4, columns);
}

/// The sections in `room` lines: the last ones are cut down first.
std::string fitted(const std::vector<Section>& sections, size_t room, size_t columns) {
  const size_t width = name_columns(sections);
  std::vector<std::string> texts;
  size_t lines = 0;
  for (const Section& section : sections) {
    texts.push_back(section_text(section, section.rows.size(), width, columns));
    lines += lines_of(texts.back());
  }
  for (size_t i = sections.size(); i > 0 && lines > room; --i) {
    const size_t others = lines - lines_of(texts[i - 1]);
    for (size_t count = sections[i - 1].rows.size(); count > 0 && lines > room; --count) {
      texts[i - 1] = section_text(sections[i - 1], count - 1, width, columns);
      lines = others + lines_of(texts[i - 1]);
    }
  }
  return fmt::format("{}", fmt::join(texts, ""));
}

}  // namespace

// CLI11 keeps a text behind each subcommand, its footer: a line for each example, a tab in it.
void set_examples(CLI::App& command, std::initializer_list<Example> examples) {
  std::string text;
  for (const Example& example : examples)
    text += fmt::format("{}\t{}\n", example.line, example.what);
  command.footer(text);
}

bool takes_command(const CLI::App& command) {
  return command.get_footer().contains(" -- ");
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames())
    names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    names.push_back("--" + name);
  return names;
}

std::string label_of(const CLI::Option& option) {
  constexpr size_t kLongestLabel = 24;
  std::string name = value_name_of(option);
  if (name.empty() || option.get_type_size() == 0) return "";
  if (name == "INT") return "N";
  if (name != "TEXT") return name;
  std::string choices = fmt::format("{}", fmt::join(choices_of(option), "|"));
  if (!choices.empty() && choices.size() <= kLongestLabel) return choices;
  return upper_of_last_word(option.get_positional() ? option.get_name(true)
                                                    : option.get_lnames().front());
}

std::string ScreenHelp::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  const bool is_root = app->get_parent() == nullptr;
  std::string text = wrapped(is_root ? "" : name + ": ", app->get_description(), 2, columns_);
  text += usage_of(*app, name, columns_);
  text += examples_text(*app, columns_);
  if (const Section arguments = positionals_of(*app); !arguments.rows.empty()) {
    text += "Arguments:\n" + list_text(arguments.rows, name_columns({arguments}), columns_);
  }
  const bool is_whole = mode == CLI::AppFormatMode::All;
  const std::string exit_codes = wrapped("Exit codes: ", kExitCodes, 2, columns_);
  const size_t used = lines_of(text) + lines_of(exit_codes);
  const size_t room = kScreenLines - std::min(kScreenLines, used);
  text += fitted(sections_of(*app), is_whole ? SIZE_MAX : room, columns_);
  return text + exit_codes;
}

}  // namespace dlprobe
