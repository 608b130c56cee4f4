#include "tools/dlprobe/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tools/dlprobe/choices.h"
#include "tools/dlprobe/help.h"

namespace dlprobe {
namespace {

enum class ValueKind { kNone, kChoice, kFile, kFolder, kPid, kOther };

struct Value {
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;
  auto operator<=>(const Value&) const = default;
};

struct OptionSpec {
  std::vector<std::string> names;
  std::string what;
  std::string label;
  bool is_optional_value = false;  ///< --confirm[=N]
  bool repeats = false;
  Value value;
};

/// A subcommand, or dlprobe itself.
struct CommandSpec {
  std::string path;  ///< "", "shm", "report/merge"
  std::string what;
  std::vector<OptionSpec> options;
  std::vector<std::string> subcommands;
  Value argument;
  bool takes_command = false;
};

Value value_of(const CLI::Option& option) {
  const std::string name = value_name_of(option);
  if (label_of(option).empty()) return {};
  if (auto choices = choices_of(option); !choices.empty()) {
    return {.kind = ValueKind::kChoice, .choices = std::move(choices)};
  }
  if (name == "FILE" || name == "PATH") return {.kind = ValueKind::kFile, .choices = {}};
  if (name == "DIR") return {.kind = ValueKind::kFolder, .choices = {}};
  if (name == "PID") return {.kind = ValueKind::kPid, .choices = {}};
  return {.kind = ValueKind::kOther, .choices = {}};
}

void collect(const CLI::App& app, const std::string& path, std::vector<CommandSpec>& commands) {
  CommandSpec command{.path = path,
                      .what = app.get_description(),
                      .options = {},
                      .subcommands = {},
                      .argument = {},
                      .takes_command = takes_command(app) && app.get_parent() != nullptr};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      command.argument = value_of(*option);
      continue;
    }
    command.options.push_back({.names = names_of(*option),
                               .what = option->get_description(),
                               .label = label_of(*option),
                               .is_optional_value = option->get_expected_min() == 0,
                               .repeats = option->get_expected_max() > 1,
                               .value = value_of(*option)});
  }
  const auto inner =
      app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
  for (const CLI::App* each : inner)
    command.subcommands.push_back(each->get_name());
  commands.push_back(std::move(command));
  for (const CLI::App* each : inner)
    collect(*each, path.empty() ? each->get_name() : path + "/" + each->get_name(), commands);
}

std::vector<CommandSpec> commands_of(const CLI::App& app) {
  std::vector<CommandSpec> commands;
  collect(app, "", commands);
  return commands;
}

/// "/shm", "report/merge": the path so far, and the word that leads further.
std::vector<std::string> steps_of(const std::vector<CommandSpec>& commands) {
  std::vector<std::string> steps;
  for (const CommandSpec& command : commands) {
    for (const std::string& name : command.subcommands)
      steps.push_back(command.path + "/" + name);
  }
  return steps;
}

std::vector<std::string> option_names(const CommandSpec& command) {
  std::vector<std::string> names;
  for (const OptionSpec& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  if (command.takes_command) names.emplace_back("--");
  return names;
}

bool waits_for_value(const OptionSpec& option) {
  return option.value.kind != ValueKind::kNone && !option.is_optional_value;
}

// ---- bash

std::string bash_reply(const Value& value) {
  switch (value.kind) {
    case ValueKind::kChoice:
      return fmt::format("_dlprobe_words \"{}\"", fmt::join(value.choices, " "));
    case ValueKind::kFile:
      return "_dlprobe_files -f";
    case ValueKind::kFolder:
      return "_dlprobe_files -d";
    case ValueKind::kPid:
      return R"~(_dlprobe_words "$(cd /proc && echo [0-9]*)")~";
    case ValueKind::kNone:
    case ValueKind::kOther:
      break;
  }
  return "";
}

std::string bash_cases(const std::map<std::string, std::vector<std::string>>& by_reply,
                       std::string_view and_then) {
  std::string text;
  for (const auto& [reply, patterns] : by_reply) {
    std::vector<std::string> quoted;
    quoted.reserve(patterns.size());
    for (const std::string& pattern : patterns)
      quoted.push_back('"' + pattern + '"');
    text += fmt::format("    {})\n      {}{}\n      ;;\n", fmt::join(quoted, " | "),
                        reply.empty() ? ":" : reply, and_then);
  }
  return text;
}

constexpr std::string_view kBash = R"(# Completion of dlprobe for bash, by: dlprobe completion bash
_dlprobe_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}
_dlprobe_files() {
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
# What stands behind "--" is a command line of its own; $1 is where it begins.
_dlprobe_command() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    _dlprobe_files -f
  fi
}
_dlprobe() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} at="" word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      _dlprobe_command $((i + 1))
      return
    fi
    case "$at/$word" in
    @STEPS@)
      at=${at:+$at/}$word
      ;;
    esac
  done
  # bash takes --level=full and json=PATH for three words.
  if [[ $cur == = ]]; then
    cur=""
    [[ $prev == -* ]] || prev="="
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $prev == -* ]] || prev="="
  fi
  if [[ $prev == = ]]; then
    _dlprobe_files -f
    return
  fi
  case "$at $prev" in
@VALUES@  esac
  if [[ $cur == -* ]]; then
    case $at in
@OPTIONS@    esac
    return
  fi
  case $at in
@ARGUMENTS@  esac
}
complete -F _dlprobe dlprobe
)";

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  const size_t at = text.find(what);
  return text.replace(at, what.size(), with);
}

std::string bash_script(const std::vector<CommandSpec>& commands) {
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, std::vector<std::string>> options;
  std::map<std::string, std::vector<std::string>> arguments;
  for (const CommandSpec& command : commands) {
    for (const OptionSpec& option : command.options) {
      if (!waits_for_value(option)) continue;
      for (const std::string& name : option.names)
        values[bash_reply(option.value)].push_back(command.path + " " + name);
    }
    const auto names = option_names(command);
    options[fmt::format("_dlprobe_words \"{}\"", fmt::join(names, " "))].push_back(command.path);
    const Value next = command.subcommands.empty()
                           ? command.argument
                           : Value{.kind = ValueKind::kChoice, .choices = command.subcommands};
    arguments[bash_reply(next)].push_back(command.path);
  }
  std::string text(kBash);
  text = replaced(text, "@STEPS@", fmt::format("{}", fmt::join(steps_of(commands), " | ")));
  text = replaced(text, "@VALUES@", bash_cases(values, "\n      return"));
  text = replaced(text, "@OPTIONS@", bash_cases(options, ""));
  return replaced(text, "@ARGUMENTS@", bash_cases(arguments, ""));
}

// ---- zsh

std::string with_backslashes(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.contains(c)) out += '\\';
    out += c;
  }
  return out;
}

// Within single quotes of sh, zsh and its like.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string zsh_action(const Value& value) {
  switch (value.kind) {
    case ValueKind::kChoice:
      return fmt::format("({})", fmt::join(value.choices, " "));
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kPid:
      return "_pids";
    case ValueKind::kNone:
    case ValueKind::kOther:
      break;
  }
  return " ";
}

std::string zsh_option(const OptionSpec& option) {
  std::string text;
  for (const std::string& name : option.names) {
    std::string spec = (option.repeats ? "*" : "") + name;
    if (waits_for_value(option) && name.starts_with("--")) spec += '=';
    spec += "[" + with_backslashes(option.what, "[]:\\") + "]";
    if (waits_for_value(option)) {
      spec += ":" + with_backslashes(option.label, ":\\") + ":" + zsh_action(option.value);
    }
    text += " \\\n    " + shell_quoted(spec);
  }
  return text;
}

std::string zsh_function_name(const std::string& path) {
  std::string name = "_dlprobe" + (path.empty() ? "" : "_" + path);
  std::ranges::replace(name, '/', '_');
  return name;
}

std::string zsh_subcommands(const CommandSpec& command, const std::vector<CommandSpec>& commands) {
  std::string list;
  std::string cases;
  for (const std::string& name : command.subcommands) {
    const std::string path = command.path.empty() ? name : command.path + "/" + name;
    const auto inner = std::ranges::find(commands, path, &CommandSpec::path);
    list += fmt::format("        {}\n",
                        shell_quoted(with_backslashes(name, ":\\") + ":" + inner->what));
    cases += fmt::format("        {}) {} ;;\n", name, zsh_function_name(path));
  }
  return fmt::format(
      "  case $state in\n"
      "    subcommand)\n"
      "      local -a subcommands=(\n{}      )\n"
      "      _describe -t commands subcommand subcommands\n"
      "      ;;\n"
      "    rest)\n"
      "      case $words[1] in\n{}      esac\n"
      "      ;;\n"
      "  esac\n",
      list, cases);
}

std::string zsh_function(const CommandSpec& command, const std::vector<CommandSpec>& commands) {
  std::string text = zsh_function_name(command.path) + "() {\n";
  text += "  local curcontext=\"$curcontext\" state line\n";
  text += "  typeset -A opt_args\n";
  if (command.takes_command) {
    text +=
        "  local at=${words[(i)--]}\n"
        "  if ((at < CURRENT)); then\n"
        "    shift at words\n"
        "    ((CURRENT -= at))\n"
        "    _normal\n"
        "    return\n"
        "  fi\n";
  }
  text += "  _arguments -C -s";
  for (const OptionSpec& option : command.options)
    text += zsh_option(option);
  if (!command.subcommands.empty()) {
    text += " \\\n    '1: :->subcommand' \\\n    '*:: :->rest'";
  } else if (command.argument.kind != ValueKind::kNone) {
    text += " \\\n    " + shell_quoted("*: :" + zsh_action(command.argument));
  }
  text += "\n";
  if (!command.subcommands.empty()) text += zsh_subcommands(command, commands);
  return text + "}\n";
}

std::string zsh_script(const std::vector<CommandSpec>& commands) {
  std::string text =
      "#compdef dlprobe\n# Completion of dlprobe for zsh, by: dlprobe completion zsh\n";
  for (const CommandSpec& command : commands)
    text += zsh_function(command, commands);
  // Sourced from a file, or autoloaded as a function of that name.
  return text +
         "if [[ $funcstack[1] == _dlprobe ]]; then\n"
         "  _dlprobe \"$@\"\n"
         "else\n"
         "  compdef _dlprobe dlprobe\n"
         "fi\n";
}

// ---- fish

std::string fish_quoted(std::string_view text) {
  return "'" + with_backslashes(text, "'\\") + "'";
}

std::string fish_value(const OptionSpec& option) {
  if (!waits_for_value(option)) return "";
  switch (option.value.kind) {
    case ValueKind::kChoice:
      return fmt::format(" -x -a {}",
                         fish_quoted(fmt::format("{}", fmt::join(option.value.choices, " "))));
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kPid:
      return " -x -a '(__fish_complete_pids)'";
    case ValueKind::kNone:
    case ValueKind::kOther:
      break;
  }
  return " -x";
}

std::string fish_argument(const Value& value) {
  return fish_value({.names = {}, .what = "", .label = "", .value = value});
}

constexpr std::string_view kFish = R"(# Completion of dlprobe for fish, by: dlprobe completion fish
function __dlprobe_at
    set -l at
    for word in (commandline -opc)[2..-1]
        if test "$word" = --
            set at $at/--
            break
        end
        switch "$at/$word"
            case @STEPS@
                set at (string trim -l -c / -- "$at/$word")
        end
    end
    test "$at" = "$argv[1]"
end
complete -c dlprobe -f
)";

std::string fish_lines(const CommandSpec& command, const std::vector<CommandSpec>& commands) {
  const std::string at = fmt::format("complete -c dlprobe -n '__dlprobe_at \"{}\"'", command.path);
  std::string text;
  for (const std::string& name : command.subcommands) {
    const std::string path = command.path.empty() ? name : command.path + "/" + name;
    const auto inner = std::ranges::find(commands, path, &CommandSpec::path);
    text += fmt::format("{} -a {} -d {}\n", at, name, fish_quoted(inner->what));
  }
  for (const OptionSpec& option : command.options) {
    std::string names;
    for (const std::string& name : option.names)
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    text += fmt::format("{}{}{} -d {}\n", at, names, fish_value(option), fish_quoted(option.what));
  }
  if (command.argument.kind != ValueKind::kNone)
    text += at + fish_argument(command.argument) + "\n";
  if (command.takes_command) {
    text += fmt::format(
        "complete -c dlprobe -n '__dlprobe_at \"{}/--\"' -F -a '(__fish_complete_command)'\n",
        command.path);
  }
  return text;
}

std::string fish_script(const std::vector<CommandSpec>& commands) {
  std::string text = replaced(std::string(kFish), "@STEPS@",
                              fmt::format("{}", fmt::join(steps_of(commands), " ")));
  for (const CommandSpec& command : commands)
    text += fish_lines(command, commands);
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
  const auto commands = commands_of(app);
  if (shell == "zsh") return zsh_script(commands);
  return shell == "fish" ? fish_script(commands) : bash_script(commands);
}

}  // namespace dlprobe
