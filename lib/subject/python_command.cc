#include "lib/subject/python_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "lib/base/path_name.h"

namespace dlprobe {
namespace {

using namespace std::string_view_literals;

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// ---- wrappers

// They become the command by exec and leave its standard streams alone. `with_value`: the short
// options whose value may be the next word.
struct Wrapper {
  std::string_view name;
  std::string_view with_value;
  bool takes_a_number;  // as timeout's DURATION or taskset's MASK
};
constexpr std::array kWrappers = {
    Wrapper{"nice", "n", false},     Wrapper{"nohup", "", false},
    Wrapper{"setsid", "", false},    Wrapper{"ionice", "cnpPu", false},
    Wrapper{"stdbuf", "ioe", false}, Wrapper{"timeout", "ks", true},
    Wrapper{"taskset", "", true},    Wrapper{"time", "fo", false},
    Wrapper{"chrt", "TPD", true}};

const Wrapper* find_wrapper(std::string_view name) {
  const auto* found = std::ranges::find(kWrappers, name, &Wrapper::name);
  return found == kWrappers.end() ? nullptr : found;
}

// Where the wrapped command begins.
size_t skip_wrapper(std::span<const std::string> argv, size_t at, const Wrapper& wrapper) {
  ++at;
  while (at < argv.size() && argv[at].size() > 1 && argv[at].front() == '-') {
    const std::string& word = argv[at++];
    if (word == "--") break;
    if (word.size() == 2 && wrapper.with_value.contains(word[1])) ++at;
  }
  return std::min(at + (wrapper.takes_a_number ? 1 : 0), argv.size());
}

constexpr std::array kEnvWithValue = {"-u"sv, "--unset"sv, "-C"sv, "--chdir"sv};

std::optional<std::pair<std::string, std::string>> assignment(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return std::pair{word.substr(0, equals), word.substr(equals + 1)};
}

void unset(PythonCommand& command, std::string name) {
  std::erase_if(command.assigns, [&](const auto& pair) { return pair.first == name; });
  command.unsets.push_back(std::move(name));
}

// Options of env, then NAME=VALUE; -S is only met in shebangs, where its words are apart already.
size_t skip_env(std::span<const std::string> argv, size_t at, PythonCommand& command) {
  ++at;
  for (; at < argv.size() && argv[at].starts_with('-'); ++at) {
    const std::string& word = argv[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word == "-" || word == "-i" || word == "--ignore-environment") {
      command.clears_environment = true;
      command.unsets.clear();
      command.assigns.clear();
    } else if (is_one_of(kEnvWithValue, word)) {
      ++at;
      if ((word == "-u" || word == "--unset") && at < argv.size()) unset(command, argv[at]);
    } else if (word.starts_with("--unset=")) {
      unset(command, word.substr("--unset="sv.size()));
    } else if (word.starts_with("-u")) {
      unset(command, word.substr(2));
    }
  }
  for (; at < argv.size(); ++at) {
    auto pair = assignment(argv[at]);
    if (!pair) break;
    std::erase(command.unsets, pair->first);
    std::erase_if(command.assigns, [&](const auto& known) { return known.first == pair->first; });
    command.assigns.push_back(std::move(*pair));
  }
  return std::min(at, argv.size());
}

// ---- the interpreter's own options

constexpr auto kFlags = "bBdEiIOPqRsStuvx"sv;  // and c, m, W, X, which have a value
constexpr auto kInformation = "hV?"sv;

struct Options {
  std::span<const std::string> argv;
  PythonCommand& command;
  size_t at;  // the word that is looked at

  bool take_letter(char letter) const {
    if (letter == 'E') command.ignores_environment = true;
    if (letter == 'I') command.isolated = command.ignores_environment = true;
    if (letter == 'S') command.no_site = true;
    return kFlags.contains(letter);
  }

  Status found(PythonProgram program, std::string name) const {
    command.program = program;
    command.name = std::move(name);
    return {};
  }

  Status information() const { return found(PythonProgram::kNone, ""); }

  // The value of -c, -m, -W or -X: the rest of the word, or the next word.
  Expected<std::string> value(const std::string& word, size_t letter) {
    if (letter + 1 < word.size()) return word.substr(letter + 1);
    if (++at < argv.size()) return argv[at];
    return failure(ErrorCode::kInvalid,
                   fmt::format("the command's option -{} has no value", word[letter]));
  }

  // Whether the word names the program, which ends the options.
  Expected<std::optional<PythonProgram>> take_word(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const char letter = word[i];
      if (kInformation.contains(letter)) {
        DLP_CHECK(information());
        return PythonProgram::kNone;
      }
      if ("cmWX"sv.contains(letter)) {
        DLP_TRY(std::string text, value(word, i));
        if (letter == 'W' || letter == 'X') return std::nullopt;
        const auto kind = letter == 'c' ? PythonProgram::kCode : PythonProgram::kModule;
        DLP_CHECK(found(kind, std::move(text)));
        return kind;
      }
      if (!take_letter(letter)) {
        return failure(ErrorCode::kInvalid,
                       fmt::format("the command's interpreter has no option -{}", letter));
      }
    }
    return std::nullopt;
  }

  Status parse() {
    for (; at < argv.size(); ++at) {
      const std::string& word = argv[at];
      if (word == "-") return found(PythonProgram::kStdin, "");
      if (!word.starts_with('-')) return found(PythonProgram::kScript, word);
      if (word == "--") {
        ++at;
        break;
      }
      if (word == "--check-hash-based-pycs") {
        ++at;
        continue;
      }
      if (word.starts_with("--")) return information();
      DLP_TRY(const auto program, take_word(word));
      if (program) return {};
    }
    if (at >= argv.size()) return found(PythonProgram::kInteractive, "");
    return found(PythonProgram::kScript, argv[at]);
  }
};

std::string not_python(std::string_view word) {
  constexpr std::array kLaunchers = {"torchrun"sv, "accelerate"sv, "deepspeed"sv, "mpirun"sv,
                                     "mpiexec"sv,  "srun"sv,       "horovodrun"sv};
  const std::string_view name = base_name(word);
  if (is_one_of(kLaunchers, name)) {
    return fmt::format(
        "{} starts the interpreters itself; give the interpreter and the script: python "
        "train.py ...",
        name);
  }
  return fmt::format(
      "{} is not a Python interpreter; give the interpreter and the script: python train.py ...",
      word);
}

}  // namespace

bool is_python_name(std::string_view path) {
  const std::string_view name = base_name(path);
  for (const std::string_view stem : {"python"sv, "pypy"sv}) {
    if (!name.starts_with(stem)) continue;
    std::string_view version = name.substr(stem.size());
    // "3.13t" is the free-threaded build, "3.11d", "3.11-dbg" a debug build.
    for (const std::string_view suffix : {"-dbg"sv, "d"sv, "t"sv, "td"sv})
      if (version.ends_with(suffix) && version.size() > suffix.size())
        version.remove_suffix(suffix.size());
    return std::ranges::all_of(version, [](char c) { return is_digit(c) || c == '.'; });
  }
  return false;
}

Expected<PythonCommand> parse_python_command(std::span<const std::string> argv) {
  PythonCommand command;
  size_t at = 0;
  while (at < argv.size() && !is_python_name(argv[at])) {
    const std::string_view name = base_name(argv[at]);
    if (name == "env") {
      at = skip_env(argv, at, command);
    } else if (const Wrapper* wrapper = find_wrapper(name)) {
      at = skip_wrapper(argv, at, *wrapper);
    } else {
      return failure(ErrorCode::kUnsupported, not_python(argv[at]));
    }
  }
  if (at >= argv.size())
    return failure(ErrorCode::kUnsupported, "the command has no Python interpreter in it");
  command.interpreter = at;
  Options options = {.argv = argv, .command = command, .at = at + 1};
  DLP_CHECK(options.parse());
  return command;
}

}  // namespace dlprobe
