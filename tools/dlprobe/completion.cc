#include "tools/dlprobe/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/os/machine.h"
#include "lib/proc/processes.h"
#include "tools/dlprobe/config/configuration.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"

namespace dlprobe {
namespace {

// What the shell itself completes, in place of candidates.
constexpr const char* kFiles = ":f\n";
constexpr const char* kFolders = ":d\n";
constexpr const char* kCommand = ":command\n";

bool waits_for_value(const CLI::Option& option) {
  return !label_of(option).empty() && option.get_expected_min() > 0;
}

const CLI::Option* option_named(const CLI::App& app, std::string_view word) {
  const std::string name(word.substr(0, word.find('=')));
  for (const CLI::Option* option : app.get_options()) {
    if (std::ranges::count(names_of(*option), name) > 0) return option;
  }
  return nullptr;
}

const CLI::Option* argument_of(const CLI::App& app) {
  const auto options =
      app.get_options([](const CLI::Option* each) { return each->get_positional(); });
  return options.empty() ? nullptr : options.front();
}

std::string line_if(std::string_view candidate, std::string_view typed, std::string_view what) {
  if (!candidate.starts_with(typed)) return "";
  return fmt::format("{}\t{}\n", candidate, what.substr(0, what.find('\n')));
}

std::string processes(std::string_view typed) {
  const auto machine = live_machine();
  if (!machine) return "";
  std::string text;
  for (const int32_t pid : list_pids(*machine->root).value_or(std::vector<int32_t>()))
    text += line_if(std::to_string(pid), typed, "process");
  return text;
}

// `before` is what stands in the same word before the value: "--level=".
std::string values_of(const CLI::Option& option, std::string_view before, std::string_view typed) {
  const std::string name = value_name_of(option);
  // -f json=PATH: a format, and where it goes.
  if (name == "FILE" || name == "PATH" || typed.contains('=')) return kFiles;
  if (name == "DIR") return kFolders;
  if (name.starts_with("PID")) return processes(typed);
  std::string text;
  for (const std::string& choice : choices_of(option)) {
    if (choice.starts_with(typed)) text += line_if(std::string(before) + choice, before, "");
  }
  return text;
}

std::string options_of(const CLI::App& app, std::string_view typed) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : names_of(*option)) {
      const bool has_equals = waits_for_value(*option) && name.starts_with("--");
      text += line_if(has_equals ? name + "=" : name, typed, option->get_description());
    }
  }
  if (takes_command(app) && app.get_parent() != nullptr) text += line_if("--", typed, "a command");
  return text;
}

std::string arguments_of(const CLI::App& app, std::string_view typed) {
  std::string text;
  for (const CLI::App* each : subcommands_of(app)) {
    if (!each->get_name().empty())
      text += line_if(each->get_name(), typed, each->get_description());
  }
  const CLI::Option* argument = argument_of(app);
  return argument == nullptr ? text : text + values_of(*argument, "", typed);
}

// What the completion of each shell is made of: it asks dlprobe itself.
constexpr std::string_view kBash = R"(# Completion of dlprobe for bash, by: dlprobe completion bash
_dlprobe() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=() behind=0 line i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    # bash takes --level=full and json=PATH for three words.
    if ((i > 1)) && [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]]; then
      words[-1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
    if [[ ${COMP_WORDS[i]} == -- ]] && ((behind == 0)); then behind=$((i + 1)); fi
  done
  [[ $cur != = ]] || cur=""
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
    :[df])
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen "-${line:1}" -- "$cur")
      ;;
    :command)
      if declare -F _command_offset >/dev/null; then
        _command_offset "$behind"
      elif ((COMP_CWORD == behind)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    *)
      line=${line%%$'\t'*}
      [[ ${words[-1]} != *=* ]] || line=${line#*=}
      COMPREPLY+=("${line%=}")
      ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _dlprobe dlprobe
)";
constexpr std::string_view kZsh = R"(#compdef dlprobe
# Completion of dlprobe for zsh, by: dlprobe completion zsh
_dlprobe() {
  local line behind=${words[(i)--]}
  local -a with_value others
  for line in "${(@f)$($words[1] __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :command)
        shift behind words
        ((CURRENT -= behind))
        _normal
        return
        ;;
      :f) compset -P '*='; _files ;;
      :d) compset -P '*='; _files -/ ;;
      *=$'\t'*) with_value+=("${line/$'\t'/:}") ;;
      *) others+=("${line/$'\t'/:}") ;;
    esac
  done
  (($#with_value)) && _describe -t options option with_value -S ''
  (($#others)) && _describe -t values value others
}
if [[ $funcstack[1] == _dlprobe ]]; then
  _dlprobe "$@"
else
  compdef _dlprobe dlprobe
fi
)";
constexpr std::string_view kFish = R"(# Completion of dlprobe for fish, by: dlprobe completion fish
function __dlprobe_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] "$typed" 2>/dev/null)
        switch $line
            case :command
                set -l behind (math (contains -i -- -- $words) + 1)
                complete -C (string join ' ' -- (string escape -- $words[$behind..-1]) "$typed")
            case :f
                __fish_complete_path "$typed"
            case :d
                __fish_complete_directories "$typed"
            case '*'
                string replace -r '=(?=\t)' '' -- $line
        end
    end
end
complete -c dlprobe -f -a '(__dlprobe_complete)'
)";

}  // namespace

std::string completions(const CLI::App& app, std::span<const std::string> words) {
  if (words.empty()) return "";
  const CLI::App* at = &app;
  const CLI::Option* waiting = nullptr;
  for (const std::string& word : words.first(words.size() - 1)) {
    if (waiting != nullptr) {
      waiting = nullptr;
    } else if (word == "--") {
      return kCommand;
    } else if (word.starts_with('-')) {
      const CLI::Option* option = option_named(*at, word);
      if (option != nullptr && waits_for_value(*option) && !word.contains('=')) waiting = option;
    } else {
      if (const CLI::App* named = find_subcommand(*at, word)) at = named;
    }
  }
  const std::string_view typed = words.back();
  if (waiting != nullptr) return values_of(*waiting, "", typed);
  if (!typed.starts_with('-')) return arguments_of(*at, typed);
  const size_t equals = typed.find('=');
  if (equals == std::string_view::npos) return options_of(*at, typed);
  const CLI::Option* option = option_named(*at, typed);
  if (option == nullptr) return "";
  return values_of(*option, typed.substr(0, equals + 1), typed.substr(equals + 1));
}

std::string_view completion_stub(std::string_view shell) {
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : kBash;
}

}  // namespace dlprobe
